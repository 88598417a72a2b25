"""The stages of a portfolio, one file each. A stage configures at construction and works when called."""

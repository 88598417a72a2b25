"""A campaign's record as one HTML page: what was decided, how long it took, what was found, where to look next."""

"""`python -m falsifier`."""

from falsifier.cli import entry

entry()

"""`python -m falsifier`."""

import sys

from falsifier.cli import main

sys.exit(main())

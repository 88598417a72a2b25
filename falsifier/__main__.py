"""`python -m falsifier`."""

import os
import sys

from falsifier.cli import main

status = main()
sys.stdout.flush()
sys.stderr.flush()
# The answer is out. Taking the interpreter and the libraries down in order costs time and can crash, and a status other
# than that of the answer would lose it.
os._exit(status)

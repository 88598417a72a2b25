"""VNN-LIB text to syntax tree (`tree`), back to text (`write`), and the reference evaluator (`evaluate`). No
torch, no rounding.
"""

from falsifier.query.read import parse as parse
from falsifier.query.read import read as read

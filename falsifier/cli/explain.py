"""`falsifier explain`: what a query asks for, in plain words."""

from __future__ import annotations

from falsifier.cli.arguments import Parser


def run(words: list[str], started: float) -> int:
    """Print the explanation."""
    parser = Parser("explain", "Say in plain words what a VNN-LIB query asks for.")
    parser.add_argument("query", metavar="QUERY", help="a VNN-LIB file, 1.0 or 2.0, plain or gzip")
    options = parser.parse_args(words)

    from falsifier.query import read
    from falsifier.spec.describe import describe

    print("\n".join(describe(read(options.query))))
    return 0

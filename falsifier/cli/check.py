"""`falsifier check`: judge a witness, written by this tool or any other, by replaying it on the original networks."""

from __future__ import annotations

from pathlib import Path

from falsifier.cli.arguments import Parser
from falsifier.errors import InputError
from falsifier.instance import parse_networks
from falsifier.verdict import WORDS, Verdict


def run(words: list[str], started: float) -> int:
    """Print `exact`, `correct` or `rejected`, and why."""
    options = _parser().parse_args(words)
    networks = parse_networks(options.network)
    if not networks:
        raise InputError(f"{options.query}: give its network with --network FILE, several as --network NAME=FILE each")

    from falsifier.arguments import as_networks
    from falsifier.query import read
    from falsifier.witness.binding import assign
    from falsifier.witness.confirm import Door
    from falsifier.witness.outcome import Witness
    from falsifier.witness.tensors import read_tensors
    from falsifier.witness.text import read_witness

    query = read(Path(options.query))
    paths = assign(query, [(network.name, network.path) for network in networks])
    witness = Path(options.witness)
    if witness.is_dir():
        given = read_tensors(query, witness)
    else:
        try:
            text = witness.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{witness}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
        if WORDS.get(text.strip(), Verdict.SAT) is not Verdict.SAT:
            raise InputError(
                f"{witness}: says {text.strip()!r} and holds no witness: only below sat there is one to check"
            )
        given = read_witness(query, text, str(witness))
    references = [network.reference for network in as_networks(paths, query)]
    verdict = Door(query, references).replay(given.inputs)
    word = verdict.class_.value if isinstance(verdict, Witness) else "rejected"
    print(f"{word} - {verdict.reason}")
    return 0


def _parser() -> Parser:
    parser = Parser("check", "Judge a witness: print exact, correct or rejected, and why.")
    parser.add_argument("query", metavar="QUERY", help="a VNN-LIB file, 1.0 or 2.0, plain or gzip")
    parser.add_argument(
        "witness", metavar="WITNESS", help="a results file, a bare witness, or a folder of <variable>.pb"
    )
    parser.add_networks()
    return parser

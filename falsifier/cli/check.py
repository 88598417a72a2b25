"""`falsifier check`: judge witnesses, written by this tool or any other, by replaying them on the original networks."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.cli.arguments import Parser
from falsifier.errors import InputError
from falsifier.instance import NamedNetwork, parse_networks

if TYPE_CHECKING:
    from falsifier.campaign.audit import Finding


def run(words: list[str], started: float) -> int:
    """Print `exact`, `correct` or `rejected`, and why: of one witness, or a line for each of a folder."""
    options = _parser().parse_args(words)
    if options.instances:
        return _told(_of_rows(options))
    if options.witness is None:
        raise InputError("give QUERY and WITNESS, or a folder and --instances (falsifier check --help says more)")
    networks = parse_networks(options.network)
    if not networks:
        raise InputError(f"{options.query}: give its network with --network FILE, several as --network NAME=FILE each")
    from falsifier.query import read

    witness = Path(options.witness)
    if witness.is_dir():
        from falsifier.witness.files import holds_tensors

        if not holds_tensors(witness):
            from falsifier.campaign.audit import audit_of_query

            return _told(audit_of_query(partial(read, Path(options.query)), networks, witness))
    return _check(Path(options.query), networks, witness)


def _check(path: Path, networks: tuple[NamedNetwork, ...], witness: Path) -> int:
    """One witness."""
    from falsifier.arguments import as_networks
    from falsifier.query import read
    from falsifier.witness.binding import assign
    from falsifier.witness.confirm import Door
    from falsifier.witness.files import read_witness_file
    from falsifier.witness.outcome import Witness

    query = read(path)
    paths = assign(query, [(network.name, network.path) for network in networks])
    given = read_witness_file(query, witness)
    references = [network.reference for network in as_networks(paths, query)]
    verdict = Door(query, references).replay(given.inputs)
    word = verdict.class_.value if isinstance(verdict, Witness) else "rejected"
    print(f"{word} - {verdict.reason}")
    return 0


def _of_rows(options: Namespace) -> Iterator[Finding]:
    folder = Path(options.query)
    if options.witness is not None or options.network:
        raise InputError("with --instances the folder is all that is given: rows name their queries and networks")
    if not folder.is_dir():
        raise InputError(f"{folder}: no folder of witnesses")
    from falsifier.campaign.audit import audit_of_rows
    from falsifier.campaign.plan import arranged, read_instances

    jobs = [job for table in options.instances for job in read_instances(Path(table))]
    return audit_of_rows(arranged(jobs), folder)


def _told(findings: Iterator[Finding]) -> int:
    """Print a line for each finding, and the sum on standard error; 0 where nothing is wrong."""
    from falsifier.campaign.audit import HARMLESS, tally

    seen = []
    for finding in findings:
        print(finding, flush=True)
        seen.append(finding)
    print(f"falsifier: {tally(seen)}", file=sys.stderr)
    return 0 if all(finding.word in HARMLESS for finding in seen) else 1


def _parser() -> Parser:
    parser = Parser("check", "Judge a witness, or every witness below a folder: print exact, correct or rejected, why.")
    parser.add_argument(
        "query", metavar="QUERY", help="a VNN-LIB file, 1.0 or 2.0, plain or gzip; with --instances the folder instead"
    )
    parser.add_argument(
        "witness",
        metavar="WITNESS",
        nargs="?",
        help="a results file or a bare witness, plain or gzip, a folder of <variable>.pb, or a folder of any of these: "
        "then there is a line for each, and the exit status is 0 only if all are valid",
    )
    parser.add_networks()
    parser.add_argument(
        "--instances",
        action="append",
        metavar="INSTANCES.csv",
        help="judge a folder of <onnx stem>_<vnnlib stem>.counterexample[.gz] by the rows of this table (may be given "
        "several times)",
    )
    return parser

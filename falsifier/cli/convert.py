"""`falsifier convert`: a query of one version of VNN-LIB written in the other, with exactly the same meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from falsifier import output_file
from falsifier.cli.arguments import Parser
from falsifier.cli.outputs import demand_others
from falsifier.errors import InputError
from falsifier.instance import parse_networks

if TYPE_CHECKING:
    from falsifier.network.reference import TensorInfo
    from falsifier.query.tree import Query, Variable


def run(words: list[str], started: float) -> int:
    """Write the text to the file that was asked for, or to stdout."""
    options = _parser().parse_args(words)
    networks = [network.path for network in parse_networks(options.network)]
    demand_others({"--output": options.output}, [options.query], networks, "the instance")

    from falsifier.query import read
    from falsifier.query.convert import to_1, to_2
    from falsifier.query.write import write

    query = read(options.query)
    wanted = options.to or ("2.0" if query.version[0] == 1 else "1.0")
    if options.network and (query.version[0] != 1 or wanted == "1.0"):
        raise InputError(f"{options.query}: --network is for writing 1.0 as 2.0")
    text = write(to_1(query) if wanted == "1.0" else to_2(query, *_tensors(query, options.network)))
    if options.output is None:
        print(text, end="")
        return 0
    output_file.write(options.output, text, "the query (--output)")
    return 0


def _tensors(query: Query, given: list[str]) -> tuple[Variable, Variable] | tuple[()]:
    """The input and the output of the network that was given, if one was."""
    if not given:
        return ()
    networks = parse_networks(given)
    if len(networks) != 1:
        raise InputError(f"{query.origin}: a 1.0 query has one network, {len(networks)} are given")

    from falsifier.arguments import as_network
    from falsifier.query.tree import Kind, Variable

    reference = as_network(networks[0].path, query.networks[0], query).reference

    def only(tensors: tuple[TensorInfo, ...], kind: Kind) -> Variable:
        if len(tensors) != 1:
            raise InputError(
                f"{networks[0].path}: has {len(tensors)} {kind.value}s, a 1.0 query is about a network with one: "
                "write the query in VNN-LIB 2.0"
            )
        return Variable("", kind, tensors[0].dtype.name, tensors[0].shape)

    return only(tuple(reference.inputs), Kind.INPUT), only(tuple(reference.outputs), Kind.OUTPUT)


def _parser() -> Parser:
    parser = Parser(
        "convert",
        "Write a VNN-LIB query in the other version, with exactly the same meaning; what that version cannot say is "
        "refused with the reason. Comments are not kept.",
    )
    parser.add_argument("query", metavar="QUERY", help="a VNN-LIB file, 1.0 or 2.0, plain or gzip")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument("--to", choices=("1.0", "2.0"), help="the version to write (default: the other one)")
    parser.add_argument(
        "--network",
        action="append",
        default=[],
        metavar="FILE",
        help="from 1.0 to 2.0: declare the shapes and the element type of this ONNX file (default: flat, and real)",
    )
    return parser

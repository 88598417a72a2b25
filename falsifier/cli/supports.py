"""`falsifier supports`: what this solver supports, in the lines that the VNN-LIB standard prescribes (section 5.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from falsifier.cli.arguments import Parser
from falsifier.errors import InputError

OPSETS = (7, 23)
ELEMENT_TYPES = "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool real"


def _operators() -> Iterable[str]:
    """Operators of the table: those that run in batches, those that constants vanish in, and those that are known to
    run one sample at a time. Others that onnxruntime runs do so as well.
    """
    from falsifier.network.control_flow import CONTROL_FLOW
    from falsifier.network.folding import FOLDED
    from falsifier.network.operators import LOWERINGS
    from falsifier.network.operators.refused import NOWHERE

    return sorted(operator for operator in {*LOWERINGS, *FOLDED, *CONTROL_FLOW} - NOWHERE if "." not in operator)


_TOPICS: dict[str, Iterable[str] | Callable[[], Iterable[str]]] = {
    "onnx-opset-versions": tuple(map(str, OPSETS)),
    "onnx-element-types": ELEMENT_TYPES.split(),
    "onnx-operators": _operators,
    "vnnlib-versions": ("1.0", "2.0"),
    "hidden-node-theories": ("NH", "H"),
    "multiple-input-output-theories": ("SIO", "MIO"),
    "multiple-network-theories": ("SNET", "MENET", "MINET", "MNET"),
    "multiple-node-comparison-theories": ("SNC", "MNC"),
    "arithmetic-complexity-theories": ("BND", "OUTC", "LIN", "POLY"),
    "optimised-disjunctive-reasoning": ("true",),
    "serialise-assignments": ("true",),
    "unsat-proofs": ("false",),
}
_OTHER_SPELLINGS = {"multiple-input-output-theories": "multiple-inputs-output-theories"}


def run(words: list[str], started: float) -> int:
    """Print the lines of one topic."""
    name = _parser().parse_args(words).topic
    if name is None:
        raise InputError("give a topic, such as --onnx-operators (falsifier supports --help lists them)")
    topic = _TOPICS[name]
    print("\n".join(topic() if callable(topic) else topic))
    return 0


def _parser() -> Parser:
    parser = Parser(
        "supports",
        "Say what this solver supports, for tools that speak the VNN-LIB standard's solver command line: one topic, "
        "one value a line.",
    )
    topics = parser.add_mutually_exclusive_group()
    for topic in _TOPICS:
        spellings = [f"--{name}" for name in (topic, _OTHER_SPELLINGS.get(topic)) if name]
        topics.add_argument(*spellings, dest="topic", action="store_const", const=topic)
    return parser

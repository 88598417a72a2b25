"""Where in a network numbers can break, and which way its tensors have to go for it: goals for a search by gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from falsifier.network.program import Program, Value, depending


class Way(Enum):
    """Where an element of a tensor is to go."""

    UP = "up"  # towards its largest value: overflow, the upper end of a domain
    DOWN = "down"  # towards its smallest: the lower end of a domain
    ZERO = "to zero"  # towards 0 from either side


@dataclass(frozen=True)
class Site:
    """A tensor of the program that one primitive reads or makes, and the ways in which that primitive may break."""

    value: Value
    ways: tuple[Way, ...]
    op: str  # of the primitive
    partner: int = -1  # the site that breaks together with this one (the other operand), -1: none


_AWAY = (Way.UP, Way.DOWN)
_READS: dict[str, tuple[tuple[Way, ...], ...]] = {
    "Div": (tuple(Way), tuple(Way)),
    "Mul": (tuple(Way), tuple(Way)),
    "Add": (_AWAY, _AWAY),
    "Sub": (_AWAY, _AWAY),
    "Mod": (_AWAY, (Way.ZERO,)),
    "Pow": ((Way.DOWN, Way.ZERO, Way.UP), _AWAY),
    "Reciprocal": ((Way.ZERO,),),
    "Abs": ((Way.ZERO,),),  # sums of sizes vanish where each of them does
    "Log": ((Way.DOWN,),),
    "Sqrt": ((Way.DOWN,),),
    "Exp": (_AWAY,),
    "Sinh": (_AWAY,),
    "Cosh": (_AWAY,),
    "Asin": (_AWAY,),
    "Acos": (_AWAY,),
    "Atanh": (_AWAY,),
    "Acosh": ((Way.DOWN, Way.UP),),
    "Tan": (_AWAY,),
    "Softmax": (_AWAY,),
    "LogSoftmax": (_AWAY,),
    "ReduceProd": (_AWAY,),
    "Cast": (tuple(Way),),
    "Det": (_AWAY,),
    "MatMul": (_AWAY, _AWAY),
}
_MAKES = frozenset(
    ("Gemm", "MatMul", "Conv", "ConvTranspose", "ReduceSum", "ReduceMean", "Mul", "Einsum", "LayerNormalization")
)
_MOST = 192  # sites that one gradient graph serves


def sites(program: Program) -> list[Site]:
    """The sites of a program in topological order, each tensor once with all its ways; at most 192.

    Where there are more, those that primitives read (domains, divisors) come before those that they make (overflow),
    and of these the last before the first: what overflows inside is larger further on.
    """
    ways: dict[str, dict[Way, None]] = {}
    found: dict[str, Site] = {}
    partners: dict[str, str] = {}
    made: set[str] = set()
    moving = depending(program, program.inputs[:1])  # with the points
    for primitive in program.primitives:
        together = []
        for name, theirs in zip(primitive.inputs, _READS.get(primitive.op, ()), strict=False):
            value = program.values.get(name)
            if value is None or value.dtype.kind != "f" or name not in moving:
                continue
            if primitive.op == "Cast" and program.values[primitive.outputs[0]].dtype.name != "float16":
                continue
            ways.setdefault(name, {}).update(dict.fromkeys(theirs))
            found.setdefault(name, Site(value, (), primitive.op))
            together.append(name)
        if len(together) == 2 and together[0] != together[1]:
            partners[together[0]], partners[together[1]] = together[1], together[0]
        if primitive.op in _MAKES:
            for name in primitive.outputs:
                value = program.values[name]
                if value.dtype.kind == "f" and name in moving:
                    ways.setdefault(name, {}).update(dict.fromkeys(_AWAY))
                    found.setdefault(name, Site(value, (), primitive.op))
                    made.add(name)
    kept = list(found)
    if len(kept) > _MOST:
        read = [name for name in kept if name not in made]
        chosen = set((read + [name for name in reversed(kept) if name in made])[:_MOST])
        kept = [name for name in kept if name in chosen]
    place = {name: i for i, name in enumerate(kept)}
    return [
        Site(found[name].value, tuple(ways[name]), found[name].op, place.get(partners.get(name, ""), -1))
        for name in kept
    ]


def goals(found: list[Site]) -> Iterator[tuple[int, Way]]:
    """(site, way) for every way of every site."""
    for i, site in enumerate(found):
        for way in site.ways:
            yield i, way

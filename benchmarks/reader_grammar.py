"""VNN-LIB texts from its grammar, of both versions, with every way to write a thing that the readers should know."""

from __future__ import annotations

import random

_BLANKS = (" ", " ", " ", "\n", "\t", "  ", "\r\n", " ; a comment (and\n")
_RELATIONS = ("<=", ">=", "<", ">")


def grown_text(rng: random.Random) -> bytes:
    """A query that is well-formed, nearly always; what it asks is drawn."""
    return _Grown(rng, 1 if rng.random() < 0.5 else 2).text().encode()


class _Grown:
    def __init__(self, rng: random.Random, version: int) -> None:
        self.rng, self.version = rng, version
        self.n, self.m = rng.randrange(1, 4), rng.randrange(1, 3)
        self.names = [self._name(i) for i in range(self.n + self.m)]

    def text(self) -> str:
        head = self._declarations()
        asserts = [self._bound(i) for i in range(self.n)]
        asserts += [self._assert(self._formula(self.rng.randrange(4))) for _ in range(self.rng.randrange(1, 4))]
        if self.rng.random() < 0.3:
            self.rng.shuffle(asserts)
        ends = self.rng.choice(("\n", "\n", " ", "", "\r\n", " ; end\n"))
        return head + ends.join(asserts) + ends

    def _name(self, slot: int) -> str:
        letter, at = ("X", slot) if slot < self.n else ("Y", slot - self.n)
        return f"{letter}_{at}" if self.version == 1 else f"{letter}[0,{at}]" if letter == "X" else f"{letter}[{at}]"

    def _declarations(self) -> str:
        if self.version == 1:
            how = self.rng.choice(("(declare-const {} Real)", "(declare-fun {} () Real)", "( declare-const {}  Real )"))
            return "".join(how.format(name) + "\n" for name in self.names)
        kind = self.rng.choice(("real", "float32", "float64"))
        return (
            f"(vnnlib-version <2.0>){self.blank()}(declare-network N (declare-input X {kind} [1,{self.n}])"
            f"{self.blank()}(declare-output Y {kind} [{self.m}]))\n"
        )

    def blank(self) -> str:
        """What stands between two words."""
        return self.rng.choice(_BLANKS)

    def _assert(self, formula: str) -> str:
        return f"({self.rng.choice(('', '', ' '))}assert{self.blank()}{formula})"

    def _bound(self, slot: int) -> str:
        low, high = sorted(self.rng.choice((-3, -2, -1, 0, 1, 2, 3)) + self.rng.random() for _ in range(2))
        if self.rng.random() < 0.7:
            low, high = round(low * 4) / 4, round(high * 4) / 4
        name = self.names[slot]
        below, above = f"(>= {name} {self._written(low)})", f"(>= {self._written(high)} {name})"
        if self.rng.random() < 0.5:
            return self._assert(f"(and {below} {above})")
        return self._assert(below) + self.blank() + self._assert(above)

    def number(self) -> str:
        """A constant."""
        kind = self.rng.random()
        value = (
            self.rng.randrange(-12, 13) / 4 if kind < 0.6 else round(self.rng.uniform(-3, 3), self.rng.randrange(1, 20))
        )
        return self._written(value)

    def _written(self, value: float) -> str:
        if self.version == 2:
            return f"{value:.{self.rng.choice((2, 5, 20))}f}"
        text = repr(value)
        choice = self.rng.randrange(8)
        if choice == 0:
            return f"{value:e}"
        if choice == 1 and value == int(value):
            return str(int(value))
        if choice == 2 and value >= 0:
            return f"+{text}"
        if choice == 3 and text.startswith("0.") and len(text) > 2:
            return text[1:]
        if choice == 4 and text.endswith(".0"):
            return text[:-1]
        return f"{value:.{self.rng.choice((2, 6, 25))}f}" if choice == 5 else text

    def _formula(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return self._atom()
        parts = [self._formula(depth - 1) for _ in range(self.rng.choice((1, 2, 2, 3, 4)))]
        return f"({self.rng.choice(('and', 'or'))}{self.blank()}{self.blank().join(parts)})"

    def _atom(self) -> str:
        more = ("=",) if self.version == 1 else ("==", "!=")
        relation = self.rng.choice((*_RELATIONS, *_RELATIONS, *more))
        name = self.rng.choice(self.names)
        kind = self.rng.random()
        if kind < 0.35:
            sides = [name, self.number()]
        elif kind < 0.6:
            sides = [name, self.rng.choice(self.names)]
        else:
            sides = [self._term(2), self._term(1)]
        self.rng.shuffle(sides)
        return f"({relation}{self.blank()}{sides[0]}{self.blank()}{sides[1]})"

    def _term(self, depth: int) -> str:
        kind = self.rng.random()
        if depth == 0 or kind < 0.3:
            return self.rng.choice(self.names) if kind < 0.2 else self.number()
        inner = [self._term(depth - 1) for _ in range(self.rng.choice((1, 2, 2, 3)))]
        if kind < 0.55:
            return f"(* {self.number()} {self.rng.choice(self.names)})"
        sign = self.rng.choice("+-*" if self.version == 2 else "+-")
        return f"({sign} {' '.join(inner)})"

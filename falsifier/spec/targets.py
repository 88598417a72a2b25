"""Targets: the disjuncts of a query compiled to stacked arrays. What a lane tries to satisfy is one row of these.

Sign and strictness are fixed in `margin.py`: slack >= 0 iff the atom holds, margin >= 0 iff the target is satisfied.

Atoms share *forms*: the distinct polynomials over free inputs and outputs that the query compares. Atom (t, k) is
`sign[t, k] * form_value[form[t, k]] >= bound[t, k]`, so 10^5 disjuncts over a few outputs stay a few columns of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from falsifier.arrays import Array


@dataclass(frozen=True)
class Forms:
    """r distinct forms: value = outputs @ y + inputs @ x + polynomial part.

    outputs `[r, m]`; inputs `[r, f]` or None where no form mentions an input; for polynomial forms `monomials` `[q, d]` holds
    indices into (x, y, 1) whose product is a monomial and `coefficients` `[r, q]` its weight in each form, else both None.
    Constants of the query stand in the atoms' bounds, never here.
    """

    outputs: Array
    inputs: Array | None = None
    monomials: Array | None = None
    coefficients: Array | None = None


@dataclass(frozen=True)
class Targets:
    """t targets. Boxes `lower`, `upper` are `[t, f]`, or `[1, f]` where all targets share one.

    form `[t, k]` int, sign `[t, k]` in {-1, +1}, bound `[t, k]`, present `[t, k]` bool (False: padding, slack +infinity);
    strict `[t, k]` bool; disjunct `[t]` int: which disjunct of the query (in its text's order) the target is.
    """

    lower: Array
    upper: Array
    forms: Forms
    form: Array
    sign: Array
    bound: Array
    strict: Array
    present: Array
    disjunct: Array

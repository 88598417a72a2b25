"""Targets: the disjuncts of a query compiled to stacked arrays. What a lane tries to satisfy is one row of these.

Sign and strictness are fixed in `margin.py`: slack >= 0 iff the atom holds, margin >= 0 iff the target is satisfied.

Atoms share *forms*: the distinct polynomials over inputs and outputs that the query compares. Atom (t, k) is `sign[t,
k] * form_value[form[t, k]] >= bound[t, k]`, so 10^5 disjuncts over a few outputs stay a few columns of numbers.

Axes: t target, k atom, f free input, m flat output, r distinct form, c input that some form mentions, q monomial.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import Array
from falsifier.records import record


@record
class Forms:
    """r distinct forms: value = outputs @ y + inputs @ x[columns] + coefficients @ monomials(x[columns], y).

    x is the full flat input `[n]` (pinned and tied elements included), y the flat output `[m]`.

    outputs `[r, m]`; columns `[c]` int: the flat inputs that forms mention; inputs `[r, c]` or None where no form
    mentions one; for polynomial forms `monomials` `[q, d]` int holds positions in (x[columns], y, 1) whose product is
    a monomial and `coefficients` `[r, q]` its weight in each form, else both None. Constants of the query stand in
    the atoms' bounds, never here.
    """

    outputs: Array
    columns: Array
    inputs: Array = None
    monomials: Array = None
    coefficients: Array = None

    @property
    def r(self) -> int:
        return int(self.outputs.shape[0])

    @property
    def linear(self) -> bool:
        """Whether every form is linear."""
        return self.monomials is None


@record
class Targets:
    """t targets. Boxes `lower`, `upper` are `[t, f]`, or `[1, f]` where all targets share one, or `[u, f]` with the box
    of each target in `box` `[t]` int, where some share one.

    form `[t, k]` int, sign `[t, k]` in {-1, +1}, bound `[t, k]`, present `[t, k]` bool (False: padding, slack
    +infinity); strict `[t, k]` bool: the atom as written is strict (the bound is already the next value beyond what
    is written); disjunct `[t]` int: which disjunct of the query (in its text's order) the target is; exact `[t]`
    bool: False where the box holds values that lie outside the bounds as written, because no representable value lies
    inside.
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
    exact: Array
    box: Array = None

    @property
    def t(self) -> int:
        return int(self.form.shape[0])

    @property
    def k(self) -> int:
        return int(self.form.shape[1])

    def in_box(self) -> NDArray[np.int64]:
        """The targets of every box (of host arrays): `[u, w]`, -1 where a box has fewer than the most."""
        every = np.arange(self.t)
        if self.box is None:
            return every[None, :] if len(self.lower) == 1 else every[:, None]
        order = np.argsort(self.box, kind="stable")
        counts = np.bincount(self.box, minlength=len(self.lower))
        out = np.full((len(counts), int(counts.max())), -1)
        out[self.box[order], every - np.repeat(np.cumsum(counts) - counts, counts)] = order
        return out

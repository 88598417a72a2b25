"""From a query's syntax tree to targets: the whole path on one page.

1. Conjuncts are counted, then brought to disjunctive normal form, or kept as one min/max tree where that would explode.
2. Equalities between inputs that every disjunct shares eliminate inputs (`elimination.py`).
3. Bounds on single inputs become a box per disjunct (`boxes.py`); empty ones are dropped, pinned inputs are constants.
4. What is left of each disjunct becomes atoms over shared forms (`stack.py`, `forms.py`).

Constants are their nearest float64; two that round to the same float64 count as equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from falsifier.arrays import distinct
from falsifier.query.tree import Formula, Query
from falsifier.records import record, replaced
from falsifier.spec.assumed import with_assumed
from falsifier.spec.atoms import AtomTable, Literals
from falsifier.spec.bands import find_bands
from falsifier.spec.boxes import Boxes, BoxLiterals, TooManyCellsError, boxes
from falsifier.spec.clauses import FALSE, TRUE, NormalForm, Size, conjuncts, expand, normal_form, product_size, size
from falsifier.spec.domain import Domain
from falsifier.spec.elimination import Elimination, build_domain, carried, eliminate, with_ranges
from falsifier.spec.forms import build_forms
from falsifier.spec.implied import with_implied
from falsifier.spec.infeasible import infeasible
from falsifier.spec.layout import Layout, layout
from falsifier.spec.margin import Rounding
from falsifier.spec.stack import Rows, contradictory, stack, tightest
from falsifier.spec.targets import Targets

if TYPE_CHECKING:
    from falsifier.spec.slack_tree import SlackTree, TreeBuilder

Ints = NDArray[np.int64]

NESTING = 8  # how often literals of the text may be copied on the way up to the normal form
GROWTH = 4_000_000  # literals that may be copied beyond that: about 200 MB and a second


@record
class Spec:
    """A compiled query. The query holds at a point iff some target's margin is >= 0 there.

    n, m: flat inputs and outputs (hidden elements too) over all networks; disjuncts: how many the normal form has
    (targets are those that are not empty). `tree` is set where the normal form would explode: then there is one target,
    whose slacks are the tree's roots. `empty`: no input can satisfy the query, for the `reason` given; targets and
    domain are None then. `assumed`: what was made up about inputs without bounds, for the user.
    """

    n: int
    m: int
    dtype: np.dtype[Any]
    rounding: Rounding
    disjuncts: int
    domain: Domain | None = None
    targets: Targets | None = None
    tree: SlackTree | None = None
    reason: str = ""
    assumed: str = ""

    @property
    def empty(self) -> bool:
        return self.targets is None


def compile_query(
    query: Query,
    dtype: DTypeLike = np.float32,
    rounding: Rounding = Rounding.INWARD,
    *,
    types: Sequence[np.dtype[Any]] | None = None,
    growth: int = GROWTH,
) -> Spec:
    """Compile a query for networks that compute in `dtype`.

    `types`: element types of the networks' inputs in order, where they are known better than the query declares them;
    `growth`: how many literals the normal form may copy before the min/max tree takes its place.

    Raises UnboundedError (an InputError) for an input without bounds.
    """
    context = _Context(layout(query, np.dtype(dtype), types), np.dtype(dtype), rounding)
    spec = _compiled(query, context, growth)
    if not spec.empty:
        return spec
    from falsifier.spec.room import roomy

    loose = roomy(query, context.where)
    if loose is None:
        return spec
    told = f"real numbers leave nothing ({spec.reason}): searched with room for readers that round"
    spec, strict = _compiled(loose, context, growth), spec
    if spec.targets is None:
        return strict
    targets = replaced(spec.targets, exact=np.zeros_like(spec.targets.exact))
    return replaced(spec, targets=targets, assumed="; ".join(filter(None, (spec.assumed, told))))


def _compiled(query: Query, context: _Context, growth: int) -> Spec:
    """The query as it stands."""
    parts = conjuncts(query.assertions)
    sizes = [size(part) for part in parts]
    product = product_size([s for s in sizes if s.clauses != 1])  # what all disjuncts share is not multiplied
    if max(product.copied, product.clauses) <= NESTING * product.written + growth:
        atoms = AtomTable(query.slots)
        try:
            return _compile(context, atoms, normal_form(parts, atoms), None)
        except TooManyCellsError:
            pass
    atoms = AtomTable(query.slots)
    from falsifier.spec.slack_tree import TreeBuilder

    builder = TreeBuilder(atoms)
    return _compile(context, atoms, _tree_form(parts, sizes, builder), builder)


@record
class _Context:
    """What does not change on the way."""

    where: Layout
    dtype: np.dtype[Any]
    rounding: Rounding

    @property
    def version_2(self) -> bool:
        return self.where.query.version[0] >= 2


def _tree_form(parts: list[Formula], sizes: list[Size], builder: TreeBuilder) -> NormalForm:
    """One disjunct that holds the conjuncts without alternatives; the others become roots of the tree."""
    common = [np.zeros(0, np.int64)]
    for part, part_size in zip(parts, sizes, strict=True):
        if part_size.clauses != 1:
            builder.root(part)
            continue
        clauses = expand(part, builder.table)
        if not len(clauses):
            return NormalForm(common[0], FALSE)
        common.append(clauses.literals)
    return NormalForm(np.concatenate(common), TRUE)


def _compile(context: _Context, atoms: AtomTable, normal: NormalForm, builder: TreeBuilder | None) -> Spec:
    where, t = context.where, len(normal.own)

    def spec(**parts: Any) -> Spec:
        return Spec(where.n, where.m, context.dtype, context.rounding, t, **parts)

    if not t:
        return spec(reason="a comparison of constants in the query is false")
    literals = atoms.literals()
    elimination = eliminate(literals.take(normal.common), where, atoms)
    if elimination.ties.contradiction:
        return spec(reason="empty input set: the equalities between inputs contradict each other")
    number = np.r_[normal.common[~elimination.spent], normal.own.literals]
    clause = np.r_[np.full(len(number) - len(normal.own.literals), -1), np.repeat(np.arange(t), normal.own.lengths)]
    every = literals.take(number)
    on_input = every.form < atoms.slots
    on_input[on_input] = where.kinds[every.form[on_input]] == 0
    at = np.flatnonzero(on_input)
    bounds, stays = carried(BoxLiterals(where.x_of[every.form[at]], clause[at], every.take(at)), elimination)
    bounds = with_ranges(bounds, elimination, where)
    bounds = with_implied(bounds, every.take(np.flatnonzero(clause < 0)), where, atoms, elimination)
    if builder is not None:
        bounds = _with_hull(bounds, builder, literals, elimination, context)
    bounds, told = with_assumed(bounds, literals, t, where, elimination)
    box = boxes(bounds, t, where, elimination.follows, context.dtype, context.rounding)
    if not box.alive.any():
        told = "the bounds on the inputs contradict each other"
        if box.apart is None:
            return spec(reason=f"empty input set: {told}" + " in every disjunct" * (t > 1))
        from falsifier.spec.excluding import excluding

        return spec(reason=f"empty input set: {told}: {excluding(where.query, int(where.slot_of_x[box.apart]))}")
    rest = np.sort(np.r_[np.flatnonzero(~on_input), at[stays]])
    tree = None
    rows = _rows(every.take(rest), clause[rest], box)
    nowhere, why = np.zeros(0, np.int64), "a comparison of inputs holds nowhere in their box"
    if not told:
        nowhere = infeasible(rows, box.lower, box.upper, where, atoms)
        if len(nowhere) < int(box.alive.sum()) and _related(rows, where, atoms):
            from falsifier.spec.combination import jointly_infeasible

            before = len(nowhere)
            nowhere = distinct(
                np.r_[nowhere, jointly_infeasible(rows, box.lower, box.upper, where, atoms, elimination)]
            )
            why = "comparisons of inputs contradict each other in their box" if len(nowhere) > before else why
    if len(nowhere) == int(box.alive.sum()):
        return spec(reason=f"empty input set: {why}" + " in every disjunct" * (t > 1))
    if builder is None:
        possible = _others(int(box.alive.sum()), np.r_[contradictory(rows, where.roughest, context.version_2), nowhere])
        if not len(possible):
            return spec(reason="the comparisons contradict each other" + " in every disjunct" * (t > 1))
        rows, box = _restricted(rows, box, possible)
    else:
        in_tree = _others(len(literals), normal.common)
        numbers = np.r_[in_tree, number[rest]]
        tree = builder.build(numbers, number[rest])
        rows = Rows(np.zeros(len(numbers), np.int64), literals.take(numbers))
    domain = build_domain(box.lower, box.upper, elimination, where, exactly=context.rounding is Rounding.INWARD)
    close = every.take(np.flatnonzero(clause < 0))
    bands = find_bands(close, box.lower, box.upper, elimination, domain, where, atoms)
    if bands is not None:
        domain = replaced(domain, band=bands.band)
        box = replaced(box, lower=box.lower.copy(), upper=box.upper.copy())
        box.lower[:, bands.band.tied], box.upper[:, bands.band.tied] = bands.low, bands.high
        if tree is None:
            rows = rows.take(bands.left(rows.literals))
    return spec(domain=domain, targets=_targets(rows, box, domain, atoms, context), tree=tree, assumed=told)


def _related(rows: Rows, where: Layout, atoms: AtomTable) -> bool:
    """Whether some target has several comparisons of inputs with each other."""
    form = rows.literals.form
    several = (form >= atoms.slots) & where.input_only(form, atoms)
    return int(np.bincount(rows.target[several], minlength=1).max()) > 1


def _others(count: int, listed: Ints) -> Ints:
    """Of 0 .. count - 1 those that are not listed."""
    left = np.ones(count, np.bool_)
    left[listed] = False
    return np.flatnonzero(left)


def _with_hull(
    bounds: BoxLiterals, builder: TreeBuilder, literals: Literals, elimination: Elimination, context: _Context
) -> BoxLiterals:
    """Bounds with those added that the tree implies, so that inputs bounded only inside an `or` have a box."""
    found = builder.hull(literals, context.where, elimination)
    return bounds.with_common(
        np.array([position for position, _, _ in found], np.int64),
        np.array([sign for _, sign, _ in found], np.int8),
        np.array([bound for _, _, bound in found], float),
    )


def _rows(literals: Literals, clause: Ints, box: Boxes) -> Rows:
    """The literals of the disjuncts that are alive, renumbered; those of all disjuncts (clause -1) in each."""
    count = int(box.alive.sum())
    shared = np.flatnonzero(clause < 0)
    own = np.flatnonzero((clause >= 0) & box.alive[clause])
    renumbered = np.cumsum(box.alive) - 1
    target = np.r_[np.repeat(np.arange(count), len(shared)), renumbered[clause[own]]]
    return tightest(Rows(target, literals.take(np.r_[np.tile(shared, count), own])))


def _restricted(rows: Rows, box: Boxes, possible: Ints) -> tuple[Rows, Boxes]:
    """Rows and boxes of some of the targets, renumbered."""
    kept = np.flatnonzero(np.isin(rows.target, possible))
    alive = box.alive.copy()
    alive[np.flatnonzero(alive)] = np.isin(np.arange(int(alive.sum())), possible)
    several = len(box.lower) > 1
    lower, upper = (box.lower[possible], box.upper[possible]) if several else (box.lower, box.upper)
    return (
        Rows(np.searchsorted(possible, rows.target[kept]), rows.literals.take(kept)),
        Boxes(alive, lower, upper, box.exact[possible]),
    )


def _targets(rows: Rows, box: Boxes, domain: Domain, atoms: AtomTable, context: _Context) -> Targets:
    stacked = stack(rows, int(box.alive.sum()), context.dtype, context.rounding, context.version_2)
    return Targets(
        lower=np.ascontiguousarray(box.lower[:, domain.free]),
        upper=np.ascontiguousarray(box.upper[:, domain.free]),
        forms=build_forms(stacked.forms, atoms, context.where, context.dtype),
        form=stacked.form,
        sign=stacked.sign,
        bound=stacked.bound,
        strict=stacked.strict,
        present=stacked.present,
        disjunct=np.flatnonzero(box.alive),
        exact=box.exact & domain.exact & stacked.exact,
    )

"""What a query asks for, in plain words: the question, the region, the alternatives, the theories."""

from __future__ import annotations

import numpy as np

from falsifier.counted import counted
from falsifier.errors import FalsifierError
from falsifier.query.evaluate import mentions_output
from falsifier.query.theories import theories
from falsifier.query.tree import Formula, Kind, NetworkDeclaration, Query, Table
from falsifier.query.words import Words
from falsifier.spec.compile import Spec, compile_query

_MOST = 12  # assertions that are shown


def describe(query: Query) -> list[str]:
    """Lines for a person, few of them however large the query is."""
    version = "{}.{}".format(*query.version)
    lines = [f"{query.origin}: VNN-LIB {version}, {counted(len(query.networks), 'network')}"]
    lines += [f"  {_network(network)}" for network in query.networks]
    lines += ["", *_question(query), ""]
    try:
        lines += _region(compile_query(query), query)
    except FalsifierError as error:
        lines.append(f"Cannot be searched as it stands: {error}")
    return [*lines, f"theories: {' '.join(theories(query).names)}"]


def _network(network: NetworkDeclaration) -> str:
    def shown(kind: Kind) -> str:
        mine = [v for v in network.variables if v.kind is kind]
        return ", ".join(f"{v.name} {v.dtype} [{','.join(map(str, v.shape))}]" for v in mine)

    hidden = f" through {shown(Kind.HIDDEN)}" if network.hidden else ""
    same = f", equal to {network.equal_to}" if network.equal_to else ""
    same += f", isomorphic to {network.isomorphic_to}" if network.isomorphic_to else ""
    name = f"{network.name}{same}: " if network.name else ""
    return f"{name}{shown(Kind.INPUT)} to {shown(Kind.OUTPUT)}{hidden}"


def _question(query: Query) -> list[str]:
    what = "an input" if len(query.networks) == 1 else "one input for each network"
    words = Words(query)
    asked: list[Formula] = []
    on_inputs = 0
    for assertion, computed in zip(query.assertions, mentions_output(query), strict=True):
        if computed or not isinstance(assertion, Table) or len(assertion.clauses) != 2:
            asked.append(assertion)
            continue
        pairs = np.flatnonzero(assertion.right >= 0)
        on_inputs += len(assertion) - len(pairs)
        asked.extend([assertion.take(pairs)] if len(pairs) else [])
    shown = [line for assertion in asked[:_MOST] for line in words.lines(assertion)]
    more = len(asked) - _MOST
    return [
        f"Searched for: {what} within the bounds ({counted(on_inputs, 'comparison')}) such that",
        *(f"  {line}" for line in shown or ["nothing else is asked"]),
        *([f"  and {counted(more, 'more assertion')}"] if more > 0 else []),
        "Finding one means that the property is violated.",
    ]


def _region(spec: Spec, query: Query) -> list[str]:
    if spec.domain is None or spec.targets is None:
        return [f"No input can satisfy it: {spec.reason}"]
    domain, targets = spec.domain, spec.targets
    follow = sum(len(tie.tied) for tie in domain.ties)
    follow += 0 if domain.combination is None else len(domain.combination.tied)
    fixed = domain.n - domain.f - follow
    parts = [f"{domain.f} free"]
    parts += [f"{int(np.sum(domain.integer))} of them whole"] if domain.rounds.integer else []
    parts += [f"{len(domain.band.tied)} of them by their difference to another"] if domain.band is not None else []
    parts += [f"{fixed} fixed"] if fixed else []
    parts += [f"{follow} determined by others"] if follow else []
    lines = [f"inputs: {counted(domain.n, 'number')}, {', '.join(parts)}"]
    if domain.f:
        width = targets.upper.astype(np.float64) - targets.lower
        least, middle, most = (f"{value:.4g}" for value in (width.min(), np.median(width), width.max()))
        lines[0] += f"; ranges {least} wide" if least == most else f"; ranges {least} to {most} wide, median {middle}"
        lines[0] += "" if len(targets.lower) == 1 else f", in {len(targets.lower)} boxes"
    if spec.assumed:
        lines.append(f"inputs: {spec.assumed}")
    if spec.tree is not None:
        lines.append(f"alternatives: nested, kept as one formula of {counted(spec.tree.atoms, 'comparison')}")
    else:
        atoms = np.sum(targets.present, axis=1)
        low, high = int(atoms.min()), int(atoms.max())
        of = counted(low, "comparison") if low == high else f"{low} to {high} comparisons"
        open_ = f", {targets.t} of them possible" if targets.t < spec.disjuncts else ""
        lines.append(f"alternatives: {spec.disjuncts}{open_}, each of {of} beyond its bounds")
    if not targets.forms.linear:
        lines.append(f"curved: products of up to {int(targets.forms.monomials.shape[1])} variables")
    return lines

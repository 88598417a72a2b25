"""Specifications for the fuzzing experiments: the rows of a list, filled up to a number around their boxes' centres.

A family is one network and what is asked of it. Classifiers get the property that a row states, "the class of the
centre stays", around further centres; other networks get the row's own comparisons in boxes moved by a part of their
sides.

Axes: g specification, t target, f free input.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.arguments import as_query
from falsifier.network import Network, load
from falsifier.network.peeling import on_logits
from falsifier.problem import Problem
from falsifier.records import replaced
from falsifier.search.directions import labels_of
from falsifier.search.siblings import Siblings, groups_of
from falsifier.spec import Spec, Targets, compile_query
from falsifier.spec.ordinal import compares_outputs
from falsifier.spec.targets import Forms

_MOVED = 0.5  # how far centres move, at most, in sides of the box
_PIXELS = 8.0  # the same for images, in radii of the box: another image of the same scene


@dataclass(frozen=True)
class Family:
    """Rows of a list that share a network. `match`: a part of the network's path."""

    name: str
    rows: str
    match: str = ""
    most: int = 12  # rows that are read


FAMILIES = {
    "traffic_30": Family("traffic_30", "traffic_signs_recognition_2023", "3_30_30"),
    "traffic_48": Family("traffic_48", "traffic_signs_recognition_2023", "3_48_48"),
    "traffic_64": Family("traffic_64", "traffic_signs_recognition_2023", "3_64_64"),
    "sri_resnet_a": Family("sri_resnet_a", "sri_resnet_a"),
    "cifar10_resnet": Family("cifar10_resnet", "cifar10_resnet", "resnet_2b"),
    "mnist_fc": Family("mnist_fc", "mnist_fc", "256x2"),
    "rl": Family("rl", "rl_benchmarks", "lunarlander"),
    "acasxu": Family("acasxu", "acasxu_2023", "_1_9_"),
    "acasxu_narrow": Family("acasxu_narrow", "acasxu_2023", "_1_6_"),
}


@dataclass(frozen=True)
class Specifications:
    """The targets of several specifications on one network: `group` `[t]` says whose; `rows`: how many are of the
    list."""

    network: Network
    spec: Spec
    group: NDArray[np.int64]
    rows: int

    @property
    def count(self) -> int:
        return int(self.group.max()) + 1

    def first(self, count: int) -> Specifications:
        """The first `count` of them."""
        return self._taken(np.flatnonzero(self.group < count))

    def one(self, number: int) -> Specifications:
        """One of them."""
        return self._taken(np.flatnonzero(self.group == number))

    def _taken(self, rows: NDArray[np.int64]) -> Specifications:
        targets = self.spec.targets
        assert targets is not None
        kept = {
            name: getattr(targets, name)[rows]
            for name in ("lower", "upper", "form", "sign", "bound", "strict", "present", "disjunct", "exact")
        }
        group = np.unique(self.group[rows], return_inverse=True)[1]
        return replace(self, spec=replaced(self.spec, targets=replaced(targets, **kept)), group=group)

    def problem(self, device: str = "cpu") -> Problem:
        """The problem on a checked engine, on the logits where those decide as well."""
        engine = self.network.engine(device, None, check=False)
        if compares_outputs(self.spec):
            engine = on_logits(engine, self.network.lowered)
        return Problem(self.spec, engine)


def specifications(listed: Path, family: Family, count: int, rng_seed: int = 0) -> Specifications:
    """`count` specifications of a family. Raises ValueError where the list has no row of it."""
    with listed.open(newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["family"] == family.rows and family.match in row["network"] and row["expected"] != "unsat"
        ]
    rows = [row for row in rows if row["network"] == rows[0]["network"]][: family.most]
    if not rows:
        raise ValueError(f"{listed}: no row of {family.rows} with {family.match!r} in its network")
    network = load(listed.parent / rows[0]["network"])
    specs = [compile_query(as_query(listed.parent / row["property"]), network.reference.dtype) for row in rows]
    kept = [spec for spec in specs if _stackable(spec, specs[0])][:count]
    rng = np.random.default_rng(rng_seed)
    own = len(kept)
    labels = [_label(network, spec) for spec in kept]
    while len(kept) < count:
        source = (len(kept) - own) % own
        label = labels[source]
        kept.append(_moved(kept[source], rng) if label < 0 else _relabelled(network, kept[source], rng))
    spec, group = stacked(kept)
    return Specifications(network, spec, group, own)


def _stackable(spec: Spec, first: Spec) -> bool:
    """Whether a spec moves the same inputs as another, and compares outputs alone, linearly."""
    if spec.targets is None or spec.domain is None or first.domain is None or spec.tree is not None:
        return False
    plain = spec.targets.forms.linear and spec.targets.forms.inputs is None
    return plain and np.array_equal(spec.domain.free, first.domain.free)


def _label(network: Network, spec: Spec) -> int:
    problem = Problem(spec, network.engine("cpu", None, check=False))
    siblings = Siblings(problem, groups_of(problem))
    return int(np.asarray(labels_of(problem, siblings.table))[0]) if problem.shared_box else -1


def _moved(spec: Spec, rng: np.random.Generator) -> Spec:
    """The same comparisons in boxes moved by up to half their sides."""
    targets = spec.targets
    assert targets is not None
    side = targets.upper - targets.lower
    shift = (rng.uniform(-_MOVED, _MOVED, (1, side.shape[1])) * side).astype(side.dtype)
    return replaced(spec, targets=replaced(targets, lower=targets.lower + shift, upper=targets.upper + shift))


def _relabelled(network: Network, spec: Spec, rng: np.random.Generator) -> Spec:
    """The class of another centre, near the box's own: what a data set would give for a further image."""
    targets, domain = spec.targets, spec.domain
    assert targets is not None
    assert domain is not None
    side = targets.upper[:1] - targets.lower[:1]
    centre = targets.lower[:1] + side / 2 + rng.uniform(-_PIXELS, _PIXELS, side.shape) * side / 2
    centre = centre.astype(side.dtype)
    outputs = network.reference.run_flat(domain.embed(centre)[0])
    return label_spec(spec, centre - side / 2, centre + side / 2, int(np.argmax(outputs)))


def label_spec(like: Spec, lower: NDArray[Any], upper: NDArray[Any], label: int) -> Spec:
    """The targets "some class scores at least as high as `label`" over a box `[1, f]`; the rest as in `like`."""
    others = np.delete(np.arange(like.m), label)
    count = len(others)
    rows = np.zeros((count, like.m), like.dtype)
    rows[np.arange(count), others], rows[:, label] = 1, -1
    ones = np.ones((count, 1), like.dtype)
    targets = Targets(
        lower=lower,
        upper=upper,
        forms=Forms(rows, np.zeros(0, np.int64)),
        form=np.arange(count)[:, None],
        sign=ones,
        bound=0 * ones,
        strict=ones < 0,
        present=ones > 0,
        disjunct=np.arange(count),
        exact=ones[:, 0] > 0,
    )
    return replaced(like, disjuncts=count, targets=targets)


def stacked(specs: Sequence[Spec]) -> tuple[Spec, NDArray[np.int64]]:
    """One spec of all targets, and the specification of each. All move the same inputs, with linear atoms on outputs.

    Raises ValueError where they do not.
    """
    parts = [spec.targets for spec in specs if spec.targets is not None]
    base, domain = specs[0], specs[0].domain
    assert domain is not None
    if not all(_stackable(spec, base) for spec in specs):
        raise ValueError("these specifications do not share free inputs and atoms over outputs")
    rows, inverse = np.unique(np.concatenate([p.forms.outputs for p in parts]), axis=0, return_inverse=True)
    first = np.cumsum([0, *(p.forms.r for p in parts)])
    k = max(p.k for p in parts)

    def column(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([np.pad(a, ((0, 0), (0, k - a.shape[1]))) for a in arrays])

    def box(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([np.broadcast_to(a, (p.t, a.shape[1])) for a, p in zip(arrays, parts, strict=True)])

    inverse = inverse.reshape(-1)
    targets = Targets(
        lower=box([p.lower for p in parts]),
        upper=box([p.upper for p in parts]),
        forms=Forms(rows, np.zeros(0, np.int64)),
        form=column([inverse[first[i] + p.form] for i, p in enumerate(parts)]),
        sign=column([p.sign for p in parts]),
        bound=column([p.bound for p in parts]),
        strict=column([p.strict for p in parts]),
        present=column([p.present for p in parts]),
        disjunct=np.concatenate([p.disjunct for p in parts]),
        exact=np.concatenate([p.exact for p in parts]),
    )
    group = np.repeat(np.arange(len(parts)), [p.t for p in parts])
    return replaced(base, disjuncts=len(group), targets=targets), group

"""Specifications for the fuzzing experiments: the rows of a list, filled up to a number around their boxes' centres.

A family is one network and what is asked of it. Classifiers get the property that a row states, "the class of the
centre stays", around further centres; other networks get the row's own comparisons in boxes moved by a part of their
sides.

They are stacked as a campaign stacks its instances. Axes: g specification, t target, f free input.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from falsifier.arguments import as_query
from falsifier.network import Network, load
from falsifier.network.peeling import on_logits
from falsifier.problem import Problem
from falsifier.records import replaced
from falsifier.search.directions import labels_of
from falsifier.search.siblings import Siblings, groups_of
from falsifier.spec import Rounding, Spec, compile_query
from falsifier.spec.ordinal import compares_outputs
from falsifier.spec.samples import Comparison, Region, sample_spec
from falsifier.spec.stacking import Part, obstacle, part_of, stacked

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
    """Specifications on one network, of which the first `rows` are of the list."""

    network: Network
    parts: tuple[Part, ...]
    rows: int

    @property
    def count(self) -> int:
        return len(self.parts)

    @property
    def group(self) -> NDArray[np.int64]:
        """Whose each target `[t]` is."""
        return np.repeat(np.arange(self.count), [part.t for part in self.parts])

    @property
    def spec(self) -> Spec:
        """The targets of all of them."""
        return stacked(self.parts, self.network.reference.m, Rounding.INWARD)

    def first(self, count: int) -> Specifications:
        """The first `count` of them."""
        return replace(self, parts=self.parts[:count])

    def one(self, number: int) -> Specifications:
        """One of them."""
        return replace(self, parts=self.parts[number : number + 1])

    def problem(self, device: str = "cpu") -> Problem:
        """The problem on a checked engine, on the logits where those decide as well."""
        engine, spec = self.network.engine(device, None, check=False), self.spec
        if compares_outputs(spec):
            engine = on_logits(engine, self.network.lowered)
        return Problem(spec, engine)


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
    return Specifications(network, tuple(part_of(spec) for spec in kept), own)


def _stackable(spec: Spec, first: Spec) -> bool:
    """Whether a spec stacks, moves the same inputs as another, and compares outputs alone."""
    if obstacle(spec) is not None or spec.targets is None or spec.domain is None or first.domain is None:
        return False
    return spec.targets.forms.inputs is None and np.array_equal(spec.domain.free, first.domain.free)


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
    label = int(np.argmax(network.reference.run_flat(domain.embed(centre)[0])))
    ends = (domain.embed(end)[0].astype(np.float64) for end in (centre - side / 2, centre + side / 2))
    others = [Comparison(j, label, 0.0, strict=False) for j in range(spec.m) if j != label]
    return sample_spec(Region(*ends), others, spec.m, spec.dtype, Rounding.INWARD)

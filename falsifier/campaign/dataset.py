"""Questions without VNN-LIB: one for every sample of a data set, "is there such an input within reach of this one?"

Each has a query all the same, an exact VNN-LIB text made when somebody asks for it: a witness is confirmed by the same
door as any other, and other tools can be given the same question. The text is of version 1.0, or 2.0 where the network
leaves its shape open or has several outputs, which only 2.0 can state. The search gets its targets from the arrays.

Axes: N sample, n flat input, m flat output.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from falsifier.arrays import to_host
from falsifier.campaign.plan import DEFAULT_TIMEOUT, Job, stem_of
from falsifier.campaign.sample_query import Declared, query_tree
from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.instance import NamedNetwork
from falsifier.numpy_file import numpy_file
from falsifier.query.write import write
from falsifier.spec import Rounding, Spec
from falsifier.spec.samples import Comparison, Region, sample_spec

if TYPE_CHECKING:
    from falsifier.network import Network
    from falsifier.query.tree import Query

_BLOCK = 1 << 22  # numbers in the points of a batch that is labelled


class Property(Enum):
    """What a witness does to its sample's label; the value is the word of the command line."""

    TOP1 = "top1"  # another class reaches the label's score
    MARGIN = "margin"  # the label's score exceeds another one by less than it should
    RANGE = "range"  # an output leaves its range


@dataclass(frozen=True)
class Setting:
    """What is asked of every sample. radius: of the box, one number or `[n]` or `[N, n]`; clip: the range of inputs;
    margin: by which the label leads (MARGIN); range: of every output (RANGE).
    """

    property: Property
    radius: NDArray[np.float64]
    clip: tuple[float, float] | None = None
    margin: float = 0.0
    range: tuple[float, float] = (-math.inf, math.inf)


class DataSet:
    """Samples x `[N, n]` (float64) with labels y `[N]`, bound to a network."""

    def __init__(
        self,
        x: NDArray[np.float64],
        y: NDArray[np.int64] | None,
        setting: Setting,
        network: Network,
        origin: str,
        known: NDArray[Any] | None = None,
    ) -> None:
        """y: None for the network's own predictions; known: the outputs of the samples, `[N, m]`, where they are.

        Raises InputError for what does not fit the network.
        """
        reference = network.reference
        if len(reference.inputs) != 1 or reference.inputs[0].dtype.kind != "f":
            raise InputError(f"{network.origin}: a data set needs a network with one input, of a float type")
        if x.shape[1] != reference.n:
            raise InputError(
                f"{origin}: a sample holds {counted(x.shape[1], 'value')}, {network.origin} takes {reference.n} "
                f"{list(reference.inputs[0].shape)}"
            )
        self.x, self.setting, self.origin = x, setting, origin
        self.m, self.dtype = reference.m, reference.dtype
        first, *rest = reference.outputs
        # a shape that it had to be told, and several outputs, only 2.0 can state
        version_2 = network.shapes is not None or bool(rest)
        self.declared = Declared(
            reference.inputs[0].shape,
            first.shape if version_2 else (self.m,),
            str(reference.inputs[0].dtype),
            version_2,
            str(first.dtype) if version_2 else "",
            tuple((output.shape, str(output.dtype)) for output in rest),
        )
        try:
            self.radius: NDArray[np.float64] = np.broadcast_to(setting.radius, x.shape)
        except ValueError:
            shape = list(setting.radius.shape)
            raise InputError(
                f"{origin}: a radius of shape {shape} does not fit samples of {counted(x.shape[1], 'value')}"
            ) from None
        if setting.clip is not None:
            self._demand_within_reach(*setting.clip)
        self.least = None if reference.outputs[0].dtype.kind not in "ub" else 0
        self.is_class, self.scores = False, self.m
        if setting.property is not Property.RANGE:
            self._find_scores(network)
        self.y = self._labels(y, network, known)
        self._numbers = np.arange(len(x))
        self._comparisons: dict[int, tuple[Comparison, ...]] = {}

    def __len__(self) -> int:
        return len(self.x)

    def _demand_within_reach(self, low: float, high: float) -> None:
        outside = np.argwhere((self.x + self.radius < low) | (self.x - self.radius > high))
        if len(outside):
            i, j = outside[0]
            raise InputError(
                f"{self.origin}: no input within reach of sample {i} lies in the clip range {low:g} .. {high:g}: "
                f"its value {j} is {self.x[i, j]:g}, which may move by {self.radius[i, j]:g}: "
                "scale the data as the network takes it"
            )

    def _find_scores(self, network: Network) -> None:
        """Whether the first output is the class, else how many of the flat outputs are scores of classes.

        They are the first output's: what lies behind it, such as a label beside probabilities, is no score.
        """
        from falsifier.network.class_output import class_elements, gives_class

        first = network.reference.outputs[0]
        self.is_class = first.size == 1 and gives_class(network)
        if self.is_class and self.setting.property is Property.MARGIN:
            more = "its first output is a class" if self.m > 1 else "gives a class"
            raise InputError(f"{network.origin}: {more} without scores: use the property top1")
        if first.dtype.kind in "iu" and (maps := class_elements(network)) > 1:
            raise InputError(
                f"{network.origin}: gives {maps} classes for a sample, not scores of one: use the property range, or "
                "falsifier fuzz --objective top1"
            )
        if not self.is_class and self.m < 2:
            raise InputError(f"{network.origin}: one output has no classes: use the property range")
        self.scores = first.size if first.size > 1 else self.m

    def _labels(self, y: NDArray[np.int64] | None, network: Network, known: NDArray[Any] | None) -> NDArray[np.int64]:
        if self.setting.property is Property.RANGE:
            return np.zeros(len(self.x), np.int64)
        if y is None:
            return self._own_labels(predictions(network, self.x) if known is None else known, network)
        self._demand_one_each(y)
        if not self.is_class and np.any((y < 0) | (y >= self.scores)):
            raise InputError(
                f"{self.origin}: y holds labels outside 0 .. {self.scores - 1}, the scores of {network.origin}"
            )
        return y

    def _own_labels(self, outputs: NDArray[Any], network: Network) -> NDArray[np.int64]:
        """What the network says of the samples itself, by its outputs `[N, m]`."""
        if not self.is_class:
            found: NDArray[np.int64] = np.argmax(outputs[:, : self.scores], axis=1).astype(np.int64)
            return found
        classes = outputs[:, 0]
        labels: NDArray[np.int64] = np.nan_to_num(classes).astype(np.int64)
        if np.any(labels != classes):
            raise InputError(f"{network.origin}: gives classes that are not whole numbers: use the property range")
        return labels

    def _demand_one_each(self, y: NDArray[np.int64]) -> None:
        if y.shape != (len(self.x),):
            raise InputError(
                f"{self.origin}: y has shape {list(y.shape)}, one label for each of {len(self.x)} is needed"
            )

    def fit(self, network: Network) -> Network:
        """The network, opened anew, with the shape that the samples have where it leaves its own open."""
        return network.shaped([self.declared.inputs]) if self.declared.version_2 else network

    def only(self, rows: Sequence[int]) -> DataSet:
        """Some of the samples, which keep their numbers in messages."""
        part = copy(self)
        part.x, part.radius, part.y = self.x[rows], self.radius[rows], self.y[rows]
        part._numbers = self._numbers[rows]
        return part

    def region(self, i: int) -> Region:
        """The box around a sample, in float64."""
        lower, upper = self.x[i] - self.radius[i], self.x[i] + self.radius[i]
        if self.setting.clip is not None:
            lower, upper = np.clip(lower, *self.setting.clip), np.clip(upper, *self.setting.clip)
        return Region(lower, upper)

    def comparisons(self, i: int) -> tuple[Comparison, ...]:
        """Of which one must hold for a witness."""
        label = int(self.y[i])
        if label not in self._comparisons:
            self._comparisons[label] = tuple(self._compared(label))
        return self._comparisons[label]

    def _compared(self, label: int) -> Iterator[Comparison]:
        setting = self.setting
        if setting.property is Property.RANGE:
            low, high = setting.range
            for j in range(self.m):
                if math.isfinite(low):
                    yield Comparison(None, j, -self.declared.lower(j, low), strict=True)
                if math.isfinite(high):
                    yield Comparison(j, None, self.declared.upper(j, high), strict=True)
            return
        if self.is_class:  # strict comparisons with the label would be met by it under the published rule of 1.0
            if self.least is None or label > self.least:
                yield Comparison(None, 0, float(1 - label), strict=False)
            yield Comparison(0, None, float(label + 1), strict=False)
            return
        strict = setting.property is Property.MARGIN
        bound = -setting.margin if strict else 0.0
        for j in range(self.scores):
            if j != label:
                yield Comparison(j, label, bound, strict)

    def text(self, i: int) -> str:
        """The question about a sample as a file."""
        number = self._numbers[i]
        title = f"{self.setting.property.value} around sample {number} of {Path(self.origin).name}, label {self.y[i]}"
        return f"; {title}\n{write(self.query(i))}"

    def query(self, i: int) -> Query:
        """The question about a sample, as reading its text gives it."""
        return query_tree(
            self.declared, self.region(i), self.comparisons(i), f"sample {self._numbers[i]} of {self.origin}"
        )


@dataclass(frozen=True)
class Sample:
    """The question about one sample."""

    data: DataSet
    index: int
    direct: ClassVar[bool] = True
    bytes: ClassVar[int] = 0

    @property
    def digest(self) -> str:
        data, region, setting = self.data, self.data.region(self.index), self.data.setting
        asked: tuple[Any, ...] = (setting.property.value, setting.margin, setting.range, int(data.y[self.index]))
        if data.declared.more:
            asked += (data.declared.result, data.declared.more)
        digest = hashlib.sha256(repr((data.declared, data.dtype, *asked)).encode())
        for side in (region.lower, region.upper):
            digest.update(side.tobytes())
        return digest.hexdigest()

    def query(self) -> Query:
        return self.data.query(self.index)

    def spec(self, query: Query | None, network: Network, rounding: Rounding) -> Spec:
        data = self.data
        region, comparisons = data.region(self.index), data.comparisons(self.index)
        return sample_spec(region, comparisons, data.m, data.dtype, rounding, version_2=data.declared.version_2)


def fitted(network: Network, shape: tuple[int, ...]) -> Network:
    """The network, with the shape of one sample where it leaves its own open."""
    if network.reference.n == math.prod(shape):
        return network
    shaped = network.shaped([(1, *shape)])
    try:
        return shaped if shaped.reference.n == math.prod(shape) else network
    except InputError:
        return network  # `DataSet` says what does not fit


def read_samples(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64] | None, tuple[int, ...]]:
    """x `[N, n]`, y `[N]` or None, and the shape of one sample, of an npz file with the arrays `x` and perhaps `y`.

    Raises InputError.
    """
    with numpy_file(path, "not an npz file of numbers: np.savez(file, x=x, y=y) writes one") as archive:
        if isinstance(archive, np.ndarray):
            raise InputError(f"{path}: holds one array, an npz file with an array x is needed: np.savez(file, x=x)")
        names = archive.files
        if "x" not in names:
            held = ", ".join(names) or "nothing"
            raise InputError(f"{path}: holds no array x (but {held}): np.savez(file, x=x, y=y)")
        x, y = archive["x"], archive["y"] if "y" in names else None
    if x.ndim < 2 or not x.size or x.dtype.kind not in "fiub":
        raise InputError(f"{path}: x has shape {list(x.shape)} of {x.dtype}; numbers of shape [N, ...] are needed")
    flat = x.reshape(len(x), -1).astype(np.float64)
    if not np.isfinite(flat).all():
        raise InputError(f"{path}: x holds values that are not finite")
    if y is not None and y.dtype.kind not in "iu":
        raise InputError(f"{path}: y is of {y.dtype}; labels are integers")
    return flat, None if y is None else y.astype(np.int64), x.shape[1:]


def read_radius(epsilon: float | None, budgets: Path | None) -> NDArray[np.float64]:
    """The radius from one number, from a numpy file of one per input (or per sample and input), or the lesser of both.

    Raises InputError.
    """
    if budgets is None:
        if epsilon is None:
            raise InputError("how far an input may move is missing: give --epsilon or --budgets")
        return np.asarray(epsilon, dtype=np.float64)
    with numpy_file(budgets, "not a numpy file of numbers: np.save(file, budgets) writes one") as radius:
        if not isinstance(radius, np.ndarray) or radius.dtype.kind not in "fiu":
            raise InputError(f"{budgets}: one array of numbers is needed: np.save(file, budgets)")
    if not (np.isfinite(radius).all() and (radius >= 0).all()):
        raise InputError(f"{budgets}: holds budgets that are negative or not finite")
    radius = radius.astype(np.float64)
    radius = radius if radius.ndim < 2 else radius.reshape(len(radius), -1)
    return radius if epsilon is None else np.minimum(radius, epsilon)


def setting_of(given: Mapping[str, Any]) -> Setting:
    """The setting that options of the command line ask for, by their names; also as a record has them.

    Raises InputError for budgets that cannot be read, and where no distance is given.
    """
    budgets, clip = given.get("budgets"), given.get("clip")
    low, high = given.get("range") or (0.0, 0.0)
    return Setting(
        Property(given.get("label_property") or "top1"),
        read_radius(given.get("epsilon"), None if budgets is None else Path(budgets)),
        None if clip is None else (clip[0], clip[1]),
        given.get("margin") or 0.0,
        (low, high),
    )


def predictions(network: Network, x: NDArray[np.float64], device: str = "auto") -> NDArray[Any]:
    """The outputs `[N, m]` of samples `[N, n]`, in batches."""
    engine = network.engine(device, (x.min(axis=0), x.max(axis=0)))
    size = max(1, _BLOCK // max(x.shape[1], engine.lane_bytes // 8))
    parts = [to_host(engine.outputs(engine.asarray(x[at : at + size]))) for at in range(0, len(x), size)]
    return np.concatenate(parts)


def jobs_of(data: DataSet, model: str, timeout: float | None, category: str | None) -> list[Job]:
    """One job for every sample."""
    digits = len(str(len(data) - 1))
    path = Path(model)
    stem = stem_of(path)
    name = category or Path(data.origin).stem
    networks = (NamedNetwork(None, path),)
    limit = timeout or DEFAULT_TIMEOUT
    return [
        Job(
            name,
            model,
            f"sample_{i:0{digits}d}.vnnlib",
            limit,
            networks,
            Sample(data, i),
            f"{stem}_sample_{i:0{digits}d}",
        )
        for i in range(len(data))
    ]

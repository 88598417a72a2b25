"""Witnesses as people see them: beside the centre of their box as images, or dimension by dimension.

The original networks run again for the classes, in onnxruntime on the CPU. What has changed or gone since the campaign
is left out, with the reason.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier.campaign.report.boxes import Box, box_of
from falsifier.campaign.report.data import Recorded, Row
from falsifier.campaign.report.pictures import ImageShape, Triple, image_shape, triple
from falsifier.campaign.report.questions import asked, demand_file
from falsifier.campaign.report.summary import SAT
from falsifier.campaign.report.words import number
from falsifier.errors import FalsifierError, InputError
from falsifier.network import Network, load
from falsifier.witness.binding import bind
from falsifier.witness.text import read_witness

if TYPE_CHECKING:
    from falsifier.network.reference import Reference, TensorInfo

MOST_BARS = 40  # inputs of which each has its bar
_MOST_CLASSES = 10_000
_MOST_NETWORKS = 8  # kept loaded


@dataclass(frozen=True)
class Answer:
    """What the network says: its outputs at the centre and at the witness, and where those are classes their argmax."""

    before: str
    after: str
    classes: bool

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Bar:
    """One input. lower, upper: of the witness's box; place: of the value in it, 0 to 1 (0.5 where it has no width)."""

    name: str
    lower: float
    upper: float
    value: float

    @property
    def pinned(self) -> bool:
        return not self.lower < self.upper

    @property
    def place(self) -> float:
        return 0.5 if self.pinned else min(1.0, max(0.0, (self.value - self.lower) / (self.upper - self.lower)))


@dataclass(frozen=True)
class View:
    """A witness. moved: how many inputs, of `size`, differ from the centre or the sample; most: by how much at most."""

    row: Row
    answer: Answer | None
    size: int
    moved: int
    most: float
    picture: Triple | None = None
    shape: ImageShape | None = None
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True)
class Views:
    """Those that are shown, of so many witnesses, and instances that cannot be shown, with the reason."""

    shown: tuple[View, ...]
    witnesses: int
    missing: tuple[tuple[Row, str], ...]

    @property
    def pictures(self) -> list[View]:
        return [view for view in self.shown if view.picture is not None]

    @property
    def boxes(self) -> list[View]:
        return [view for view in self.shown if view.bars]


def views(recorded: Recorded, text_of: Callable[[int], str | None], most: int) -> Views:
    """The views of up to `most` falsified instances, the families in turn. text_of: the witness of an attempt.

    Nothing raises: what cannot be shown is said. Instances whose inputs are neither images nor few are passed over.
    """
    shown: list[View] = []
    missing: list[tuple[Row, str]] = []
    candidates = in_turn(recorded.rows)
    command = recorded.facts.get("command")
    looker = _Looker(command if isinstance(command, dict) else {})
    for row in candidates:
        if len(shown) == most or len(missing) > 2 * most:
            break
        try:
            view = looker.look(row, text_of)
        except (
            FalsifierError,
            OSError,
            ValueError,
            TypeError,
            LookupError,
            MemoryError,
        ) as error:
            missing.append((row, str(error) or type(error).__name__))
            continue
        if view is not None:
            shown.append(view)
    shown.sort(key=lambda view: (view.row.family, view.row.number))
    return Views(tuple(shown), len(candidates), tuple(missing))


def in_turn(rows: Iterable[Row]) -> list[Row]:
    """Falsified instances, the first of each family before the second of any."""
    members: dict[str, list[Row]] = {}
    for row in rows:
        if row.verdict == SAT and row.attempt is not None:
            members.setdefault(row.family, []).append(row)
    return [row for rank in zip_longest(*members.values()) for row in rank if row is not None]


class _Looker:
    """Looks at witnesses; keeps the few networks that it used last."""

    def __init__(self, command: Mapping[str, Any]) -> None:
        self._command = command
        self._networks: OrderedDict[tuple[str, tuple[tuple[int, ...], ...]], Network] = OrderedDict()
        self._dull: set[tuple[tuple[str | None, str], ...]] = set()  # networks whose inputs nobody could look at

    def look(self, row: Row, text_of: Callable[[int], str | None]) -> View | None:
        """The view of a witness; None where its inputs are neither images nor few.

        Raises FalsifierError, OSError or ValueError with what is in the way.
        """
        if row.networks in self._dull:
            return None
        if len(row.networks) != 1:
            self._dull.add(row.networks)
            return None
        demand_file(row.networks[0][1])
        if row.sample is None and not _worth_looking(self._loaded(row, None).reference.inputs):
            self._dull.add(row.networks)
            return None
        question = asked(row, self._command)
        query = question.query
        if len(query.networks) != 1:
            return None
        inputs = query.networks[0].inputs
        shapes = None if query.version[0] == 1 else tuple(variable.shape for variable in inputs)
        reference = self._loaded(row, shapes).reference
        if not _worth_looking(reference.inputs):
            return None
        bound = bind(query, [reference])
        text = None if row.attempt is None else text_of(row.attempt)
        if text is None:
            raise InputError("its witness is not in the record, or damaged")
        point = np.concatenate([values.ravel() for values in bound.cast(read_witness(bound.query, text).inputs)])
        box = box_of(bound.query, reference, point.astype(np.float64))
        if question.sample is not None:
            box = replace(box, centre=question.sample)
        return _view(row, reference, box, point.astype(np.float64), [variable.name for variable in inputs])

    def _loaded(self, row: Row, shapes: tuple[tuple[int, ...], ...] | None) -> Network:
        path = row.networks[0][1]
        key = (path, shapes or ())
        if key not in self._networks:
            network = load(Path(path))
            self._networks[key] = network if shapes is None else network.shaped(shapes, ())
            while len(self._networks) > _MOST_NETWORKS:
                self._networks.popitem(last=False)
        self._networks.move_to_end(key)
        return self._networks[key]


def _worth_looking(inputs: Sequence[TensorInfo]) -> bool:
    if len(inputs) == 1 and image_shape(inputs[0].shape) is not None:
        return True
    return sum(tensor.size for tensor in inputs) <= MOST_BARS


def _view(row: Row, reference: Reference, box: Box, point: NDArray[np.float64], names: Sequence[str]) -> View:
    """The view of a flat point `[n]`."""
    shape = image_shape(reference.inputs[0].shape) if len(reference.inputs) == 1 else None
    change = np.abs(point - box.centre)
    return View(
        row=row,
        answer=_answer(reference, box.centre, point),
        size=len(point),
        moved=int(np.count_nonzero(change)),
        most=float(change.max(initial=0.0)),
        picture=None if shape is None else triple(box.centre, point, shape),
        shape=shape,
        bars=() if shape is not None else tuple(_bars(reference, box, point, names)),
    )


def _bars(reference: Reference, box: Box, point: NDArray[np.float64], names: Sequence[str]) -> Iterator[Bar]:
    """The inputs one by one."""
    labels = [
        f"{name}_{i}" if len(names) > 1 or name == "X" else f"{name}[{i}]"
        for name, tensor in zip(names, reference.inputs, strict=False)
        for i in range(tensor.size)
    ]
    if len(labels) != len(point):  # in 1.0 every element may be declared alone
        labels = [f"X_{i}" for i in range(len(point))]
    for label, *values in zip(labels, box.lower.tolist(), box.upper.tolist(), point.tolist(), strict=True):
        yield Bar(label, *values)


def _answer(reference: Reference, centre: NDArray[np.float64], point: NDArray[np.float64]) -> Answer | None:
    """What the network says to both; None where it says more than a few numbers."""
    before, after = (reference.run_flat(x.astype(reference.dtype)) for x in (centre, point))
    if len(reference.outputs) != 1 or not 0 < len(after) <= _MOST_CLASSES:
        return None
    if len(after) == 1:
        return Answer(number(float(before[0]), 4), number(float(after[0]), 4), classes=False)
    if max(reference.outputs[0].shape) != len(after):  # not one number for each class
        return None
    return Answer(str(int(np.argmax(before))), str(int(np.argmax(after))), classes=True)

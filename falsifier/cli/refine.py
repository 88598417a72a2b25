"""What `verify` is asked for beyond a first witness, and where further witnesses go."""

from __future__ import annotations

import math
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from falsifier.cli.results_file import ResultsFile
from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.output_file import replace

if TYPE_CHECKING:
    from falsifier.falsify import Prepared
    from falsifier.query.tree import Query
    from falsifier.refinement import Refinement
    from falsifier.result import Result
    from falsifier.witness.outcome import Appraised, Witness

_SHARE = 20  # at most one part in so many of the time goes into writing what is soon bettered
_INDEX = "index.json"


def asked(options: Namespace) -> bool:
    """Whether anything is wanted. Raises InputError for options that do not go together."""
    wished = [
        name
        for name, given in (
            ("--all-witnesses", options.all_witnesses),
            ("--deepen", options.deepen),
            ("--nearest", options.nearest),
        )
        if given
    ]
    if len(wished) > 1:
        raise InputError(f"{' and '.join(wished)}: choose one of them")
    for name, given, needs, there in (
        ("--distinct", options.distinct, "--all-witnesses", options.all_witnesses),
        ("--apart", options.apart, "--distinct distance", options.distinct == "distance"),
        ("--norm", options.norm, "--nearest", options.nearest),
        ("--witnesses", options.witnesses, "--all-witnesses, --deepen or --nearest", wished),
        ("--from", options.start, "--all-witnesses, --deepen or --nearest", wished),
    ):
        if given is not None and not there:
            raise InputError(f"{name} goes with {needs}: give that, or leave it out")
    return bool(wished)


def refinement_of(options: Namespace, prepared: Prepared) -> Refinement:
    """What the options ask for. Raises InputError for a point that cannot be read or does not fit."""
    from falsifier.refinement import Refinement

    nearest: Any = options.nearest
    if nearest is not None and nearest != "centre":
        nearest = _point(Path(nearest), prepared)
    return Refinement(
        witnesses=options.all_witnesses or 1,
        distinct=options.distinct or "disjunct",
        apart=options.apart if options.apart is not None else 0.1,
        deepen=options.deepen,
        nearest=nearest,
        norm=options.norm or "linf",
    )


def given_witness(path: Path, prepared: Prepared) -> Witness | None:
    """The witness in a file, confirmed; None where the instance cannot be searched. Raises InputError."""
    from falsifier.witness.files import read_witness_file
    from falsifier.witness.outcome import Rejection

    door = prepared.door
    if door is None:
        return None
    verdict = door.replay(read_witness_file(door.query, path).inputs)
    if isinstance(verdict, Rejection):
        raise InputError(f"{path}: is no witness of this query: {verdict.reason}")
    return verdict


def _point(path: Path, prepared: Prepared) -> Any:
    """The point of a numpy file, or the inputs of a witness."""
    import numpy as np

    if path.suffix == ".npy":
        from falsifier.numpy_file import numpy_file

        with numpy_file(path, "is not a numpy file with an array of numbers") as array:
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
                raise InputError(f"{path}: is not a numpy file with an array of numbers")
            return array.astype(np.float64).reshape(-1)
    from falsifier.witness.files import read_witness_file

    if prepared.door is None:
        return "centre"  # there is nothing to search
    inputs = read_witness_file(prepared.door.query, path).inputs
    return np.concatenate([np.asarray(values, np.float64) for values in inputs])


class Kept:
    """Writes witnesses as they come: the best into the results file, all into a folder."""

    def __init__(self, results: ResultsFile | None, folder: str | None) -> None:
        """Raises InputError where the folder cannot be made, or holds witnesses already."""
        self._results, self._folder = results, None if folder is None else Path(folder)
        self._written: list[Appraised] = []
        self._answer: Witness | None = None  # in the results file
        self._next = -math.inf  # reading of the clock before which nothing is written
        if self._folder is not None:
            if (self._folder / _INDEX).exists():
                raise InputError(f"{self._folder}: holds witnesses already: choose another folder, or remove it")
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{self._folder}: cannot be made ({error.strerror})") from None

    def keep(self, result: Result) -> None:
        """Write what is new; what only betters the last waits where that was dear to write. Raises InputError."""
        start = time.monotonic()
        if result.witness is None or result.query is None:
            return
        if start < self._next and len(result.witnesses) == len(self._written):
            return
        from falsifier.witness.text import write_witness

        if self._results is not None and not self._results.stream and result.witness is not self._answer:
            self._results.write(f"{result.verdict.value}\n{write_witness(result.query, result.witness)}")
            self._answer = result.witness
        self.write_folder(result)
        now = time.monotonic()
        self._next = now + _SHARE * (now - start)

    def write_folder(self, result: Result) -> None:
        """Write what is new into the folder, if there is one. Raises InputError."""
        if self._folder is not None and result.witnesses and result.query is not None:
            self._write(self._folder, result, result.query)
        self._written = list(result.witnesses)

    def _write(self, folder: Path, result: Result, query: Query) -> None:
        import json

        from falsifier.witness.text import write_witness

        entries = []
        try:
            for number, found in enumerate(result.witnesses):
                name = f"{number + 1:04}.counterexample"
                if number >= len(self._written) or self._written[number] is not found:
                    replace(folder / name, write_witness(query, found.witness))
                entries.append({"file": name, **found.to_json()})
            best = next(i for i, found in enumerate(result.witnesses) if found.witness is result.witness)
            index = {"query": query.origin, "best": entries[best]["file"], "witnesses": entries}
            replace(folder / _INDEX, json.dumps(index, indent=1, allow_nan=False) + "\n")
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from None


def summary(result: Result) -> str:
    """What came of a refinement, for people."""
    if not result.witnesses:
        return ""
    first = result.witnesses[0]
    best = next((found for found in result.witnesses if found.witness is result.witness), first)
    if best.distance is not None and first.distance is not None:
        return f"; distance {best.distance:.6g}, of the first witness {first.distance:.6g}"
    if best is not first:
        return f"; margin {best.margin:.6g}, of the first witness {first.margin:.6g}"
    return f"; {counted(len(result.witnesses), 'witness')}"

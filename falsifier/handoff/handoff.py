"""Handoff: an instance that search left open, as plain data that turns into JSON and back (`docs/handoff.md`)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from falsifier import output_file
from falsifier.errors import InputError
from falsifier.input_file import read_text
from falsifier.instance import Instance, NamedNetwork

if TYPE_CHECKING:
    from falsifier.falsify import Prepared
    from falsifier.result import Result

FORMAT, VERSION = "falsifier-handoff", 1


@dataclass(frozen=True)
class OpenDisjunct:
    """A disjunct, numbered in the order of the query's normal form, and its best margin (< 0; None: none is known)."""

    disjunct: int
    margin: float | None


@dataclass(frozen=True)
class NearMiss:
    """The best point `[n]` that search found for a disjunct: flat inputs over all networks, row-major, and its margin.

    The margin may be >= 0: an engine's word that the door refused.
    """

    disjunct: int
    margin: float
    point: NDArray[Any]


@dataclass(frozen=True)
class Handoff:
    """What an open instance carries on.

    seconds_left: until the answer is due, at the time of the hand-off. open: the disjuncts that search could not
    satisfy; empty where the query was not compiled, which leaves all of it open. near: near-misses, the best first.
    prepared: the instance as this process holds it, for adapters that run inside; not part of the JSON.
    """

    instance: Instance
    seconds_left: float
    open: tuple[OpenDisjunct, ...] = ()
    near: tuple[NearMiss, ...] = ()
    evaluations: int = 0
    rng_seed: int = 0
    device: str = "auto"
    require: str = "correct"
    attack: str = ""
    prepared: Prepared | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        instance: Instance,
        result: Result,
        seconds_left: float,
        *,
        prepared: Prepared | None = None,
        **options: str,
    ) -> Handoff:
        """From what a search returned. `options`: device, require.

        An instance that was prepared with budgets is not handed on: a verifier is asked about the query as written.
        """
        if prepared is not None and not prepared.whole:
            prepared = None
        return cls(
            _named(instance, result),
            seconds_left,
            tuple(OpenDisjunct(i, result.margins[i]) for i in result.open),
            tuple(NearMiss(i, float(result.margins[i] or 0.0), point) for i, point in result.near),
            result.evaluations,
            result.rng_seed,
            attack=result.reason_text,
            prepared=prepared,
            **options,
        )

    def to_json(self) -> dict[str, Any]:
        """JSON types, documented in docs/handoff.md; paths are absolute."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "networks": [{"name": n.name, "path": str(n.path.absolute())} for n in self.instance.networks],
            "query": str(self.instance.query.absolute()),
            "timeout": self.instance.timeout,
            "seconds_left": self.seconds_left,
            "open": [{"disjunct": o.disjunct, "margin": o.margin} for o in self.open],
            "near": [
                {"disjunct": miss.disjunct, "margin": miss.margin, "point": miss.point.tolist()} for miss in self.near
            ],
            "evaluations": self.evaluations,
            "rng_seed": self.rng_seed,
            "device": self.device,
            "require": self.require,
            "attack": self.attack,
        }

    def write(self, path: Path) -> None:
        """Write the JSON. Raises InputError where that fails."""
        output_file.write(path, json.dumps(self.to_json(), allow_nan=False, indent=1) + "\n")


def from_json(record: Any, origin: str = "handoff") -> Handoff:
    """The inverse of `Handoff.to_json`. Raises InputError for anything else, and for a later version."""
    if not isinstance(record, Mapping) or record.get("format") != FORMAT:
        raise InputError(f"{origin}: is no hand-off: its format is not {FORMAT!r}")
    if record.get("version") != VERSION:
        raise InputError(f"{origin}: version {record.get('version')!r}, this release reads version {VERSION}")
    try:
        networks = tuple(NamedNetwork(n["name"], Path(n["path"])) for n in record["networks"])
        return Handoff(
            Instance(networks, Path(record["query"]), float(record["timeout"])),
            _finite(record["seconds_left"]),
            tuple(OpenDisjunct(int(o["disjunct"]), o["margin"]) for o in record["open"]),
            tuple(NearMiss(int(m["disjunct"]), _finite(m["margin"]), _point(m["point"])) for m in record["near"]),
            int(record["evaluations"]),
            int(record["rng_seed"]),
            str(record["device"]),
            str(record["require"]),
            str(record["attack"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{origin}: not a whole hand-off of version {VERSION}: {error}") from None


def read(path: Path) -> Handoff:
    """Read what `Handoff.write` wrote. Raises InputError."""
    try:
        record = json.loads(read_text(path))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    return from_json(record, str(path))


def _named(instance: Instance, result: Result) -> Instance:
    """The instance with a lone network under the name that a 2.0 query declares, which verifiers may ask for."""
    query = result.query
    if query is None or query.version[0] == 1 or [n.name for n in instance.networks] != [None]:
        return instance
    own = [network.name for network in query.networks if network.equal_to is None]
    if len(own) != 1:
        return instance
    return Instance((NamedNetwork(own[0], instance.networks[0].path),), instance.query, instance.timeout)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number


def _point(values: Sequence[float]) -> NDArray[Any]:
    return np.array([_finite(v) for v in values])

"""What a user asks of a fuzzer, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from falsifier.arguments import demand_count, demand_seconds


@dataclass
class Settings:
    """The arguments of `falsifier fuzz`, by their names there; `fuzz.run.fuzz` takes the same.

    model, against: a path, or whatever `falsifier.network.load` takes. objective: nonfinite, disagree, range:LOW,HIGH,
    top1, words:FILE, or module:function. inputs: a path of starts (.npz) or arrays by input name. ranges: by input
    name, '' for the rest. mutators: names or module:function, beside the default ones; `only_mutators` drops these.
    threshold: of nearest-neighbour coverage, None: measured (see `build.measured_threshold`).
    """

    model: Any
    objective: str = "nonfinite"
    against: Any = None
    tolerance: float | None = None
    inputs: Any = None
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    radius: float | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    mutators: tuple[str, ...] = ()
    only_mutators: bool = False
    coverage: str = "nearest"
    cover: tuple[str, ...] = ()
    threshold: float | None = None
    exact_coverage: bool = False
    tokens: Path | None = None
    prompt_length: int = 24
    generate: int = 32
    sample_seed: int | None = None
    temperature: float = 1.0
    lanes: int | None = None
    rng_seed: int = 0
    seconds: float = 60.0
    max_evaluations: int | None = None
    causes: int | None = None  # stop after so many
    replays: int = 10
    minimise: bool = True
    out: Path | None = None
    resume: bool = False
    as_vnnlib: bool = False

    def demand(self) -> None:
        """Raise InputError for counts and seconds that are none."""
        for name in ("lanes", "max_evaluations", "causes", "replays", "prompt_length", "generate"):
            value = getattr(self, name)
            if value is not None:
                demand_count(name, value)
        demand_count("rng_seed", self.rng_seed, 0)
        demand_seconds(self.seconds, "seconds")

    def identity(self) -> dict[str, Any]:
        """What decides whether a session is the same one."""
        return {
            "objective": self.objective,
            "tolerance": self.tolerance,
            "ranges": {k: list(v) for k, v in self.ranges.items()},
            "radius": self.radius,
            "coverage": self.coverage,
            "cover": list(self.cover),
        }

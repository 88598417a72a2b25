"""A cactus plot: how many instances each contender solves within so many seconds each."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from peers_summary import Trial

NO_MATPLOTLIB = "--plot needs matplotlib, which comes with the extra [plots]: pip install 'vnn-falsifier[plots]'"


def has_matplotlib() -> bool:
    """Whether a plot can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def cactus(trials: Sequence[Trial], timeout: float, path: Path) -> None:
    """Write the plot as PNG. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(run.contender for run in trials))
    tried = len({run.instance for run in trials})
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name in names:
        seconds = sorted(run.seconds for run in trials if run.contender == name and run.solved)
        solved = range(1, len(seconds) + 1)
        axes.plot(solved, seconds, marker=".", label=f"{name} ({len(seconds)} of {tried})")
    axes.set_yscale("log")
    axes.axhline(timeout, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xlim(0, tried + 1)
    axes.set_xlabel("instances solved")
    axes.set_ylabel("seconds per instance")
    axes.grid(visible=True, which="major", linewidth=0.3)
    axes.legend(title="contender")
    figure.savefig(path, format="png", dpi=150)

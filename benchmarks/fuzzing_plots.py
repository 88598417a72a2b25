"""Plots of the fuzzing experiments, as PNG. Needs matplotlib, which comes with the extra [plots]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NO_MATPLOTLIB = "--plots needs matplotlib, which comes with the extra [plots]: pip install 'vnn-falsifier[plots]'"


def speedups(path: Path, figures: Mapping[str, Mapping[int, float]]) -> None:
    """RQ1: specifications per second over those of B = 1, family by family. Raises ImportError without matplotlib."""
    axes, save = _axes(path, "specifications in one batch (B)", "specifications per second, B = 1 is 1")
    for family, ratio in figures.items():
        axes.plot(list(ratio), list(ratio.values()), marker="o", label=family)
    axes.set_xscale("log")
    axes.set_yscale("log")
    save()


def curves(path: Path, lines: Mapping[str, Sequence[tuple[float, float]]], what: str) -> None:
    """RQ2: counts over the window, one line a configuration."""
    axes, save = _axes(path, "seconds", what)
    for name, points in lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], label=name)
    save()


def sensitivity(path: Path, means: Mapping[str, Mapping[float, float]], what: str) -> None:
    """RQ3: counts over the scale factor, one line a mode."""
    axes, save = _axes(path, "scale factor s (the step itself in fixed mode)", what)
    for mode, values in means.items():
        axes.plot(list(values), list(values.values()), marker="o", label=mode)
    axes.set_xscale("log")
    save()


def _axes(path: Path, x: str, y: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True, which="major", linewidth=0.3)

    def save() -> None:
        axes.legend(fontsize="small")
        figure.savefig(path, format="png", dpi=150)

    return axes, save

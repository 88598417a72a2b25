"""The plots of the page, as SVG that takes its colours and letters from the page. Needs matplotlib, of [report].

What a point stands for is its title, which browsers show where the pointer rests.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar
from xml.etree import ElementTree

from falsifier.campaign.report.comparison import Pair
from falsifier.campaign.report.data import Row, Sample
from falsifier.campaign.report.summary import SAT, OpenInstance
from falsifier.campaign.report.words import printable, scaled, short

_MOST_TITLED = 400  # points of a line that have a title
_MOST_POINTS = 1500  # of a cloud
MOST_FAMILIES = 40  # rows of a plot that has one for each
# colours that matplotlib writes, and what the page puts in their place
_INK, _MUTED, _GRID = "#010203", "#040506", "#070809"
_SERIES = ("#0a0b0c", "#0d0e0f", "#101112")
_NAMES = {_INK: "ink", _MUTED: "muted", _GRID: "line", **{c: f"series-{i}" for i, c in enumerate(_SERIES, 1)}}
_COLOURS = re.compile("|".join(_NAMES))
_PLACES = re.compile(r"^#(?=\D)|url\(#")  # references to ids, which are the page's: no two plots may share one
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names come from files
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "grid.color": _GRID,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "path.simplify": True,
}
_LEAST = 1e-3  # seconds: what is quicker stands there on a logarithmic axis


def cactus(series: Mapping[str, Sequence[tuple[float, str]]]) -> str:
    """How many instances fall within so many seconds each. series: seconds and names, quickest first, by label."""

    def draw(figure: Any, title: Titles) -> None:
        axes = _axes(figure.add_subplot(), "instances falsified", "seconds of the instance's own clock")
        axes.set_yscale("log")
        for i, (label, found) in enumerate(series.items()):
            seconds = [max(value, _LEAST) for value, _ in found]
            label = f"{printable(label)} ({len(found)})"
            axes.plot(range(1, len(seconds) + 1), seconds, color=_SERIES[i], linewidth=1.6, label=label)
            some = range(0, len(found), -(-len(found) // _MOST_TITLED))
            x, y = [k + 1 for k in some], [seconds[k] for k in some]
            points = axes.scatter(x, y, s=12, color=_SERIES[i], linewidths=0)
            title(points, [f"{k + 1}. {found[k][1]}: {short(found[k][0])} s" for k in some])
        if len(series) > 1:
            axes.legend(loc="upper left")
        axes.set_xlim(left=0)
        _plain(axes.yaxis)

    return _svg("cactus", (8.0, 3.6), draw)


def by_family(rows: Sequence[Row]) -> str:
    """Seconds and evaluations of every witness, family by family, with the median of each."""
    names = sorted({row.family for row in rows if row.verdict == SAT})[:MOST_FAMILIES]
    place = {name: i for i, name in enumerate(names)}
    hits = [row for row in rows if row.verdict == SAT and row.family in place]

    def draw(figure: Any, title: Titles) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, what, value in ((left, "seconds to the witness", _clock), (right, "evaluations", _evaluations)):
            some = [(row, value(row)) for row in hits if value(row) > 0]
            _strip(axes, [(place[row.family], x, f"{_name(row)}: {short(x)} {what}") for row, x in some], title)
            _axes(axes, what, "")
        for axes in (left, right):
            axes.set_xscale("log")
            _plain(axes.xaxis)
        _families(left, names)

    return _svg("by-family", (8.0, 1.0 + 0.26 * len(names)), draw)


def margins(open_: Sequence[OpenInstance]) -> str:
    """How far from satisfied the best point of every open instance is, family by family; the nearest at the right."""
    names = sorted({instance.row.family for instance in open_})[:MOST_FAMILIES]
    place = {name: i for i, name in enumerate(names)}
    least = min((-i.nearest for i in open_ if i.nearest < 0), default=1e-9)

    def draw(figure: Any, title: Titles) -> None:
        what = "distance to satisfied (the margin without its sign), nearest at the right"
        axes = _axes(figure.add_subplot(), what, "")
        points = [
            (place[i.row.family], max(-i.nearest, least), f"{_name(i.row)}: margin {short(i.nearest)}")
            for i in open_
            if i.row.family in place
        ]
        _strip(axes, points, title)
        axes.set_xscale("log")
        axes.invert_xaxis()
        _plain(axes.xaxis)
        _families(axes, names)

    return _svg("margins", (8.0, 1.0 + 0.26 * len(names)), draw)


def progress(samples: Sequence[Sample]) -> str:
    """Witnesses, evaluations and, where it was measured, coverage over the seconds at work."""
    panels: list[tuple[str, Callable[[Sample], float | None]]] = [
        ("falsified", lambda s: s.falsified),
        ("evaluations", lambda s: s.evaluations),
    ]
    if any(sample.coverage is not None for sample in samples):
        panels.append(("coverage, %", lambda s: None if s.coverage is None else 100 * s.coverage))
    resumed = [b.time for a, b in pairwise(samples) if a.session != b.session]

    def draw(figure: Any, title: Titles) -> None:
        from matplotlib.ticker import EngFormatter, MaxNLocator

        for axes, (name, value) in zip(figure.subplots(len(panels), 1, sharex=True), panels, strict=True):
            _axes(axes, "seconds at work" if name == panels[-1][0] else "", name)
            known = [(s.time, y) for s in samples if (y := value(s)) is not None]
            axes.plot(*zip(*known, strict=True), color=_SERIES[0], linewidth=1.6, drawstyle="steps-post")
            axes.set_ylim(bottom=0)
            axes.set_xlim(left=0)
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=name != "coverage, %"))
            if name == "evaluations":
                axes.yaxis.set_major_formatter(EngFormatter(sep=" "))
            for time in resumed:
                axes.axvline(time, color=_MUTED, linewidth=0.8, linestyle=":")

    return _svg("progress", (8.0, 0.6 + 1.25 * len(panels)), draw)


def speeds(pairs: Sequence[Pair], this: str, other: str) -> str:
    """Seconds of every instance in both campaigns: below the diagonal this one is faster."""

    def draw(figure: Any, title: Titles) -> None:
        axes = _axes(figure.add_subplot(), f"seconds, {other}", f"seconds, {this}")
        some = _some(sorted(pairs, key=lambda pair: pair.this.total))
        x, y = [_clock(pair.other) for pair in some], [_clock(pair.this) for pair in some]
        ends = min(*x, *y) / 1.5, max(*x, *y) * 1.5
        axes.plot(ends, ends, color=_MUTED, linewidth=0.8, linestyle="--")
        title(
            axes.scatter(x, y, s=16, color=_SERIES[0], alpha=0.6, linewidths=0),
            [f"{_name(p.this)}: {short(p.this.total)} s here, {short(p.other.total)} s there" for p in some],
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(xlim=ends, ylim=ends, aspect="equal")
        _plain(axes.xaxis)
        _plain(axes.yaxis)

    return _svg("speeds", (5.0, 4.6), draw)


Titles = Callable[[Any, Sequence[str]], None]
Point = TypeVar("Point")


def _name(row: Row) -> str:
    return f"{row.onnx} {row.vnnlib}"


def _clock(row: Row) -> float:
    """Seconds for a logarithmic axis."""
    return max(row.total, _LEAST)


def _evaluations(row: Row) -> float:
    return float(row.evaluations)


def _strip(axes: Any, points: Sequence[tuple[int, float, str]], title: Titles) -> None:
    """A dot for each (row, value, title), and a bar at the median of each row."""
    from statistics import median

    if not points:
        return
    rows, values, names = zip(*_some(sorted(points)), strict=True)
    title(axes.scatter(values, rows, s=16, color=_SERIES[0], alpha=0.6, linewidths=0), names)
    for row in set(rows):
        middle = median(value for at, value, _ in points if at == row)
        axes.plot([middle, middle], [row - 0.32, row + 0.32], color=_INK, linewidth=1.4)


def _some(points: Sequence[Point]) -> Sequence[Point]:
    """Every so many of sorted points, where there are more than anyone can tell apart."""
    return points[:: -(-len(points) // _MOST_POINTS)]


def _families(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [printable(name)[:40] for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelcolor=_INK)


def _axes(axes: Any, x: str, y: str) -> Any:
    axes.set_xlabel(printable(x))
    axes.set_ylabel(printable(y))
    axes.grid(visible=True, which="major")
    return axes


def _plain(axis: Any) -> None:
    """Numbers as people write them on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    few = min(low, high) > 0 and max(low, high) < 100 * min(low, high)
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: scaled(value) if value >= 1e3 else short(value)))
    axis.set_minor_formatter(NullFormatter())


def _svg(name: str, size: tuple[float, float], draw: Callable[[Any, Titles], None]) -> str:
    """Draw a figure and return it as an element of a page. Raises ImportError without matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    titles: dict[str, Sequence[str]] = {}

    def title(collection: Any, texts: Sequence[str]) -> None:
        collection.set_gid(f"points-{len(titles)}")
        titles[f"{name}-points-{len(titles)}"] = texts

    out = io.StringIO()
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the measuring font lacks: the page's font draws them
        figure = Figure(figsize=size, layout="constrained")
        draw(figure, title)
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(out.getvalue(), name, titles)


def _for_page(svg: str, name: str, titles: Mapping[str, Sequence[str]]) -> str:
    """The drawing without what only a file of its own needs, with its titles and the page's colours."""
    root = ElementTree.fromstring(svg[svg.index("<svg") :])
    for metadata in root.findall("{*}metadata"):
        root.remove(metadata)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.set(key.rpartition("}")[2], _COLOURS.sub(_variable, _PLACES.sub(rf"\g<0>{name}-", value)))
        if "id" in element.attrib:
            element.set("id", f"{name}-{element.attrib['id']}")
    width = float(root.get("width", "0pt").removesuffix("pt"))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("style", f"min-width:{width:.0f}px;max-width:{1.55 * width:.0f}px")
    for group in root.iter("g"):
        texts = titles.get(group.get("id", ""), ())
        marks = list(group.iter("use"))
        if len(marks) == len(texts):  # in the order in which they were given, unless some were left out
            for mark, text in zip(marks, texts, strict=True):
                ElementTree.SubElement(mark, "title").text = printable(text)
    return ElementTree.tostring(root, encoding="unicode")


def _variable(colour: re.Match[str]) -> str:
    return f"var(--{_NAMES[colour[0]]})"

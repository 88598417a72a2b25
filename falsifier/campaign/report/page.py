"""The page: one file of HTML that loads nothing and runs no script but its own. Needs jinja2, of the extra [report].

Every value is escaped by the template engine, and the page's own policy forbids whatever could slip through.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from falsifier import __version__
from falsifier.campaign.report import plots, words
from falsifier.campaign.report.comparison import Comparison, compare
from falsifier.campaign.report.data import Recorded, read_record, witness_reader
from falsifier.campaign.report.facts import differing, facts
from falsifier.campaign.report.statistics import ALPHA
from falsifier.campaign.report.summary import continued, families, nearest_open, solved_seconds, totals
from falsifier.campaign.report.views import Views, views
from falsifier.errors import InputError
from falsifier.output_file import real, replace

PICTURES = 24  # witnesses that are shown unless told otherwise
_MOST_OPEN, _MOST_PAIRS = 100, 200  # rows of tables that only name the nearest, or what changed
_BREAKS = re.compile(r"[/_.-]+(?=[^;&]{3})")


@dataclass(frozen=True)
class Column:
    """A column of the table of instances."""

    label: str
    numeric: bool = False
    optional: bool = False  # left out where no instance was tried twice


_COLUMNS = (
    Column("#", numeric=True),
    Column("Family"),
    Column("Network"),
    Column("Query"),
    Column("Verdict"),
    Column("Class"),
    Column("s", numeric=True),
    Column("Evaluations", numeric=True),
    Column("Margin", numeric=True),
    Column("Attempts", numeric=True, optional=True),
    Column("Reason"),
)


def write_report(campaign: Path, out: Path, against: Path | None = None, pictures: int = PICTURES) -> Recorded:
    """Write the page of a campaign, in one step: a reader meets the whole page or the one before it.

    pictures: of how many witnesses. Raises InputError where a record cannot be read or the page not be written, and
    ImportError without the extra [report].
    """
    recorded = read_record(campaign)
    comparison = None
    if against is not None:
        other = read_record(against)
        comparison = compare(recorded, other, differing(recorded, other))
    with witness_reader(recorded) as text_of:
        seen = views(recorded, text_of, pictures)
    _put(out, render(recorded, seen, comparison))
    return recorded


def render(recorded: Recorded, seen: Views, comparison: Comparison | None = None) -> str:
    """The page as text. Raises ImportError without jinja2 or matplotlib."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("falsifier.campaign.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    environment.filters |= {
        "number": words.number,
        "count": words.count,
        "compact": words.compact,
        "duration": words.duration,
        "short": words.short,
        "path": _path,
    }
    script = folder.joinpath("page.js").read_text(encoding="utf-8")
    open_ = nearest_open(recorded.rows)
    groups = families(recorded.rows)
    retried = any(row.attempts > 1 for row in recorded.rows)
    return environment.from_string(folder.joinpath("page.html").read_text(encoding="utf-8")).render(
        policy=_policy(script),
        css=Markup(folder.joinpath("page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        recorded=recorded,
        lead=_lead(recorded),
        totals=totals(recorded),
        families=groups,
        places={family.name: i for i, family in enumerate(groups)},
        columns=[column for column in _COLUMNS if retried or not column.optional],
        retried=retried,
        open=open_,
        most_families=plots.MOST_FAMILIES,
        most_open=_MOST_OPEN,
        most_pairs=_MOST_PAIRS,
        comparison=comparison,
        alpha=ALPHA,
        plots={name: Markup(drawing) for name, drawing in _plots(recorded, open_, comparison)},
        views=seen,
        view_boxes=seen.boxes,
        facts=facts(recorded),
        sections=_sections(recorded, bool(open_), seen, comparison),
    )


def _plots(recorded: Recorded, open_: list[Any], comparison: Comparison | None) -> Iterator[tuple[str, str]]:
    """The plots that have something to show; the others empty."""
    solved = solved_seconds(recorded.rows)
    series = {recorded.name: solved}
    if comparison is not None and (theirs := solved_seconds(comparison.other.rows)):
        series[f"{comparison.other.name} (other)"] = theirs
    samples = continued(recorded.progress)
    yield "cactus", plots.cactus(series) if solved else ""
    yield "families", plots.by_family(recorded.rows) if solved else ""
    yield "margins", plots.margins(open_) if open_ else ""
    yield "progress", plots.progress(samples) if len(samples) > 1 else ""
    if comparison is not None and comparison.both:
        yield "speeds", plots.speeds(comparison.both, recorded.name, comparison.other.name)


def _sections(recorded: Recorded, has_open: bool, seen: Views, comparison: Comparison | None) -> list[tuple[str, str]]:
    every = [
        ("totals", "Totals", True),
        ("comparison", "Comparison", comparison is not None),
        ("instances", "Instances", True),
        ("time", "Time", True),
        ("open", "Open", has_open),
        ("progress", "Progress", len(recorded.progress) > 1),
        ("witnesses", "Witnesses", bool(seen.shown or seen.missing)),
        ("about", "About", True),
    ]
    return [(anchor, label) for anchor, label, there in every if there]


def _lead(recorded: Recorded) -> str:
    """When it ran."""
    if recorded.began is None:
        return "No instance was tried yet."
    began, last = (
        datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")
        for time in (recorded.began, recorded.last or 0)
    )
    return f"{began} to {last}"


def _policy(script: str) -> str:
    """No network at all, and no script but this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _shown(value: Any) -> Any:
    """Every value of the template on its way out: text from a file without signs that cannot be seen."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return "\n".join(map(words.printable, value.split("\n")))
    return value


def _path(text: str) -> Any:
    """A name from a file, which may be broken where its parts end."""
    from markupsafe import Markup, escape

    return Markup(_BREAKS.sub(r"\g<0><wbr>", str(escape(words.printable(text)))))


def _put(out: Path, text: str) -> None:
    try:
        replace(real(out), text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(f"{out}: the report cannot be written: {error.strerror}: choose another --out") from None

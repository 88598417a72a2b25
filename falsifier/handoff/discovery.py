"""Adapters by name, found through the entry points `falsifier.adapters` of whatever packages are installed."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from falsifier.errors import InputError
from falsifier.handoff.adapter import Adapter, Settings

GROUP = "falsifier.adapters"
_LONGEST = 300  # characters of a text that somebody else's code gives


def found() -> dict[str, EntryPoint]:
    """The entry points by name, sorted; nothing of theirs is imported. The first of a name on the path counts."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        points.setdefault(point.name, point)
    return dict(sorted(points.items()))


def make(name: str, settings: Settings) -> Adapter:
    """An adapter with its settings. Raises InputError for a name that nothing announces, and what making one raises."""
    points = found()
    if name not in points:
        raise InputError(f"no adapter {name!r}: choose one of {', '.join(points) or 'none: none is installed'}")
    try:
        factory = points[name].load()
    except Exception as error:  # whatever a third party's module does when it is imported
        raise InputError(f"adapter {name!r} cannot be loaded from {points[name].value}: {one_line(error)}") from error
    adapter: Adapter = factory(settings)
    return adapter


def one_line(error: BaseException) -> str:
    """An exception in one line, for a user."""
    text = shortened(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shortened(text: str) -> str:
    """A text in one line, and no longer than a user reads."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 4]} ..."

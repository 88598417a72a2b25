"""What a record says about its run, as lines of a name and a value: the command, settings, versions, the machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from falsifier.campaign.report.data import Recorded
from falsifier.campaign.report.words import number

_FIRST = ("command", "settings", "shard", "machine", "falsifier", "packages")  # in this order; the others follow
_ALWAYS_OTHER = ("created", "ended", "sessions")


def facts(recorded: Recorded) -> list[tuple[str, str]]:
    """Every value with its name, nested ones as `settings device`; sessions with what they had otherwise than now."""
    given = recorded.facts
    order = sorted(given, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), key))
    out = [line for key in order if key != "sessions" for line in _flat(key, given[key])]
    sessions = given.get("sessions")
    for i, session in enumerate(sessions if isinstance(sessions, list) else (), 1):
        if isinstance(session, dict):
            out.extend(_session(f"session {i}", session, given))
    return out


def differing(this: Recorded, other: Recorded) -> list[tuple[str, str, str]]:
    """(name, here, there) of facts that are not the same in both."""
    here, there = ({name: text for name, text in facts(each) if _comparable(name)} for each in (this, other))
    return [
        (name, here.get(name, ""), there.get(name, ""))
        for name in dict.fromkeys([*here, *there])
        if here.get(name) != there.get(name)
    ]


def _comparable(name: str) -> bool:
    return name not in _ALWAYS_OTHER and not name.startswith("session ")


def _session(name: str, session: Mapping[str, Any], latest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """When it ran, and what it has otherwise than the record's latest."""
    ended = session.get("ended") or "did not end"
    yield name, f"{_value('', session.get('started', ''))} to {_value('', ended)}"
    for key, value in session.items():
        if key in ("started", "ended"):
            continue
        known = dict(_flat(f"{name} {key}", latest.get(key)))
        yield from ((at, text) for at, text in _flat(f"{name} {key}", value) if known.get(at) != text)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    inner: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        inner = [(f"{name} {key}", item) for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        inner = [(f"{name} {i}", item) for i, item in enumerate(value, 1)]
    elif value not in (None, ""):
        yield name, _value(name, value)
    for key, item in inner:
        yield from _flat(key, item)


def _value(name: str, value: Any) -> str:
    if name.endswith(" memory") and isinstance(value, int | float):
        return f"{number(value / 1e9)} GB"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)

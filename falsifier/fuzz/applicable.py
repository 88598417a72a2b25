"""Settings that say nothing to the objective or the coverage that is asked for are refused, not passed over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from typing import Any

from falsifier.errors import InputError
from falsifier.fuzz.settings import Settings

_OPTIONS = {"ranges": "range", "sample_seed": "sample"}  # where the command line has another word
_OF_WORDS = ("prompt_length", "generate", "sample_seed", "temperature")
_NOT_OF_WORDS = ("ranges", "radius", "mutators", "only_mutators", "cover")
_OF_NEAREST = ("threshold", "exact_coverage")


def demand_applicable(settings: Settings) -> None:
    """Raises InputError."""
    words = settings.objective.startswith("words:")
    if settings.objective != "disagree":
        _refuse(settings, ("against", "tolerance"), "--objective disagree: name it, or leave them out")
    if not words:
        _refuse(settings, _OF_WORDS, "--objective words:FILE")
    else:
        _refuse(settings, _NOT_OF_WORDS, "networks of numbers, and say nothing to --objective words")
    if settings.temperature != Settings.temperature and settings.sample_seed is None:
        raise InputError("--temperature belongs to --sample: without it the model writes what is likeliest")
    if settings.coverage != "nearest":
        _refuse(settings, _OF_NEAREST, "--coverage nearest")
    if settings.coverage == "none":
        _refuse(settings, ("cover",), "a coverage, and there is none")


def _refuse(settings: Settings, names: Iterable[str], owner: str) -> None:
    names = set(names)
    given = [f.name for f in fields(settings) if f.name in names and getattr(settings, f.name) != _default(f)]
    if given:
        options = " and ".join("--" + _OPTIONS.get(name, name).replace("_", "-") for name in given)
        raise InputError(f"{options} belong{'s' if len(given) == 1 else ''} to {owner}")


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()

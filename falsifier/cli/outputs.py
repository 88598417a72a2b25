"""What a command may write: no file that it reads, and no file twice."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from falsifier.errors import InputError
from falsifier.instance import parse_networks
from falsifier.output_file import demand_another, is_stream

Name = str | os.PathLike[str]


def demand_others(
    outputs: Mapping[str, Name | None], files: Iterable[Name | None], models: Iterable[Name] = (), whole: str = ""
) -> None:
    """Raise InputError where an output would take the place of what is read.

    outputs: by option, `-` and None are no files; files: what is read, None and what is not there are none; models:
    read with the files that their tensors lie in; whole: what all of that makes up, for the message.
    """
    there = {o: t for o, t in outputs.items() if t is not None and os.fspath(t) != "-" and os.path.isfile(t)}
    if not there:
        return
    paths = [Path(model) for model in models]
    read = [*files, *paths]
    for option, target in there.items():
        demand_another(option, target, read, whole)
        for model in paths:
            _demand_no_weights(option, target, model)


def demand_different(outputs: Mapping[str, Name | None]) -> None:
    """Raise InputError where two options name the same file, be it there or not."""
    seen: dict[str, str] = {}
    for option, target in outputs.items():
        if target is None or os.fspath(target) == "-" or is_stream(target):
            continue
        real = os.path.realpath(target)
        if real in seen:
            raise InputError(f"{option} {os.fspath(target)}: is what {seen[real]} names too: name another")
        seen[real] = option


def demand_none_inside(option: str, folder: Name | None, files: Iterable[Name | None], end: str) -> None:
    """Raise InputError where a file that is read lies in the folder of an option, and ends like those that are put
    there.
    """
    if folder is None or not os.path.isdir(folder):
        return
    for file in files:
        if file is None or not os.path.isfile(file) or not os.fspath(file).endswith(end):
            continue
        if os.path.samefile(os.path.dirname(os.path.abspath(file)), folder):
            raise InputError(
                f"{option} {os.fspath(folder)}: {os.fspath(file)}, which is read, would be lost there: name another"
            )


def models_of(networks: Iterable[str]) -> list[Path]:
    """The models of a command line; none where it cannot be read, which is to be said where the answer says so too."""
    try:
        return [network.path for network in parse_networks(networks)]
    except InputError:
        return []


def inside(given: Name | None) -> list[Name]:
    """What is named, and where that is a folder what lies in it."""
    if given is None:
        return []
    return [given, *Path(given).iterdir()] if os.path.isdir(given) else [given]


def _demand_no_weights(option: str, target: Name, model: Path) -> None:
    if not model.is_file():
        return
    from falsifier.network.external_files import external_data, may_be_beside

    if may_be_beside(model, target):
        demand_another(option, target, external_data(model), f"the model {model}")

"""An instance's files as other programs want them: unpacked, by absolute path."""

from __future__ import annotations

from pathlib import Path

from falsifier.errors import InputError
from falsifier.input_file import GZIP, MODEL, limit_or, opened, read_bytes
from falsifier.instance import Instance, NamedNetwork


def plain(instance: Instance, folder: Path) -> Instance:
    """The instance with absolute paths; what is packed lies unpacked in `folder`. Raises InputError."""
    networks = tuple(NamedNetwork(n.name, _plain(n.path, folder)) for n in instance.networks)
    return Instance(networks, _plain(instance.query, folder), instance.timeout)


def _plain(path: Path, folder: Path) -> Path:
    path = path.absolute()
    try:
        with opened(path) as file:
            if file.read(2) != GZIP:
                return path
        unpacked = folder / path.name.removesuffix(".gz")
        unpacked.write_bytes(read_bytes(path, limit_or(MODEL)))
    except OSError as error:
        raise InputError(f"{path}: cannot be unpacked into {folder} ({error.strerror or error})") from None
    return unpacked

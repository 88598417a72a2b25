"""An instance's files as other programs want them: unpacked, by absolute path."""

from __future__ import annotations

import gzip
from pathlib import Path

from falsifier.errors import InputError
from falsifier.instance import Instance, NamedNetwork

_GZIP = b"\x1f\x8b"


def plain(instance: Instance, folder: Path) -> Instance:
    """The instance with absolute paths; what is packed lies unpacked in `folder`. Raises InputError."""
    networks = tuple(NamedNetwork(n.name, _plain(n.path, folder)) for n in instance.networks)
    return Instance(networks, _plain(instance.query, folder), instance.timeout)


def _plain(path: Path, folder: Path) -> Path:
    path = path.absolute()
    try:
        with path.open("rb") as file:
            if file.read(2) != _GZIP:
                return path
        unpacked = folder / path.name.removesuffix(".gz")
        unpacked.write_bytes(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    return unpacked

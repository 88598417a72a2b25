"""What the files of a network hold, as digests: equal ones share batches, and answers hold while they stay."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from falsifier.errors import InputError
from falsifier.input_file import MODEL, demand_size, limit_or, opened


class Content(NamedTuple):
    """digest: of the file and of those that its tensors lie in; folder: where they are looked for, empty for none."""

    digest: str
    folder: str


def content_of(path: Path) -> Content:
    """The content of a network's file.

    Raises InputError for what is no file or too large a one, OSError where reading fails.
    """
    digest = hashlib.sha256()
    beside = False
    with opened(path) as file:
        demand_size(file, str(path), limit_or(MODEL))
        before = b""
        while block := file.read(1 << 20):
            digest.update(block)
            beside = beside or b"location" in before + block
            before = block[-16:]
    if not beside:
        return Content(digest.hexdigest(), "")
    return Content(digest.hexdigest() + _of_external_files(path), str(path.absolute().parent))


def _of_external_files(model: Path) -> str:
    """Digests of the files beside a model, each with its name; no digest where one cannot be read."""
    from falsifier.network.external_files import external_data

    out = []
    for path in external_data(model):
        try:
            with opened(path) as file:
                out.append(f"+{path.name}={hashlib.file_digest(file, 'sha256').hexdigest()}")
        except (InputError, OSError):  # loading says what is missing
            out.append(f"+{path.name}")
    return "".join(out)

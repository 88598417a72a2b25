"""Questions about samples as VNN-LIB files in a folder, with an instances.csv: for any tool."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from falsifier.campaign.dataset import Sample
from falsifier.campaign.plan import Job, Question
from falsifier.errors import InputError
from falsifier.output_file import replace


def write_queries(jobs: Sequence[Job], folder: Path, model: Path) -> None:
    """The questions as files, and an instances.csv of them; files that hold them already stay as they are.

    Raises InputError where they cannot be written, and before anything is where a file holds something else.
    """
    try:
        network = os.path.relpath(model, folder)
        rows = "".join(f"{network},{job.vnnlib},{job.limit:g}\n" for job in jobs)
        wanted = [*((folder / job.vnnlib, job.question) for job in jobs), (folder / "instances.csv", rows)]
        missing = [(path, content) for path, content in wanted if not _held(path, content)]
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in missing:
            replace(path, _text(content))
    except OSError as error:
        raise InputError(f"{folder}: the queries cannot be written: {error.strerror}") from None


def _held(path: Path, content: Question | str | None) -> bool:
    """Whether a file holds a content; False where it is not there. Raises InputError where it holds something else."""
    if not path.exists():
        return False
    if not path.is_file() or path.read_bytes() != _text(content).encode():
        raise InputError(
            f"--as-vnnlib {path.parent}: holds another {path.name}, which would be lost: name another folder"
        )
    return True


def _text(content: Question | str | None) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, Sample)
    return content.data.text(content.index)

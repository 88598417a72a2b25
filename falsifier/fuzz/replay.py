"""Runs saved hits again, each by its own script, on the model as it is now."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from falsifier.errors import FalsifierError, InputError
from falsifier.fuzz.hit import INPUTS, RECORD, SCRIPT, read_record
from falsifier.input_file import read_bytes, read_text


class Outcome(Enum):
    """What a replay showed; the value is what a user reads."""

    REPRODUCES = "reproduces"
    GONE = "gone"
    BROKEN = "cannot be run"


@dataclass(frozen=True)
class Replay:
    """One hit, run again."""

    folder: Path
    summary: str
    outcome: Outcome
    text: str  # what the script printed


def hit_folders(root: Path) -> list[Path]:
    """The folders of hits at or below `root`. Raises InputError where there is none."""
    if not root.exists():
        raise InputError(f"{root}: there is no such folder")
    found = sorted(path.parent for path in root.rglob(RECORD))
    if not found and not (root / "session.sqlite").exists():
        raise InputError(f"{root}: holds no hits ({RECORD} is in none of its folders)")
    return found


def models_of(folder: Path) -> Iterator[Path]:
    """The models that the record of a hit names, where they are still there. Raises InputError."""
    for known in read_record(folder)["models"].values():
        for name in (known["file"], known["original"]):
            if name is not None and (folder / name).is_file():
                yield (folder / name).resolve()


def replay(folder: Path, models: Mapping[str, Path] | None = None) -> Replay:
    """Run one hit. `models` replaces models by their name in the script (`model`, `against`).

    The original file counts where it is still there, not the copy beside the hit, so that a repaired model is judged.
    """
    record = read_record(folder)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            text = read_text(folder / SCRIPT)
            for name, known in record["models"].items():
                path = _model(folder, name, known, models or {}, Path(scratch))
                text = text.replace(f"{name} = load({known['file']!r})", f"{name} = load({str(path)!r})")
            (Path(scratch) / INPUTS).write_bytes(read_bytes(folder / INPUTS, packed=False))
        except OSError as error:
            return Replay(folder, record["summary"], Outcome.BROKEN, f"{error.filename}: {error.strerror}")
        except FalsifierError as error:
            return Replay(folder, record["summary"], Outcome.BROKEN, str(error))
        script = Path(scratch) / SCRIPT
        script.write_text(text)
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return Replay(folder, record["summary"], Outcome.GONE, done.stdout.strip())
    if done.returncode == 1 and "Traceback" not in done.stderr:
        return Replay(folder, record["summary"], Outcome.REPRODUCES, done.stdout.strip())
    last = done.stderr.strip().splitlines()[-1:] or [f"the script ended with {done.returncode}"]
    return Replay(folder, record["summary"], Outcome.BROKEN, last[0])


def _model(folder: Path, name: str, known: dict[str, Any], models: Mapping[str, Path], scratch: Path) -> Path:
    """Where the script loads a model from: the one given, the original, or the copy; inner tensors shown."""
    copy: Path = (folder / known["file"]).resolve()
    original: Path | None = models.get(name)
    if original is None and known["original"] is not None and (folder / known["original"]).exists():
        original = folder / known["original"]
    if original is None:
        if not copy.exists():
            option = "--model FILE" if name == "model" else f"--model {name}=FILE"
            raise InputError(f"{copy}: there is no such model: say where it is with {option}")
        return copy
    from falsifier.fuzz.exposed import exposed_model
    from falsifier.network import load

    network = load(original.resolve())
    own = {o.name for o in network.reference.outputs}
    missing = [t for t in known["tensors"] if t not in own]
    if not missing and network.plain:
        return original.resolve()
    proto = exposed_model(network, missing)
    shown = {o.name for o in proto.graph.output}
    for tensor in missing:
        if tensor not in shown:
            raise InputError(f"{original}: has no tensor {tensor!r} any more")
    path = scratch / f"{name}.onnx"
    path.write_bytes(proto.SerializeToString())
    return path

"""A hit on disk: a folder per cause, with the inputs, what is known of it, and a script that shows it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from falsifier.errors import InputError
from falsifier.fuzz.objectives import Finding, Model, Reproducer
from falsifier.fuzz.space import Space
from falsifier.input_file import read_text
from falsifier.output_file import replace

Array = NDArray[Any]

RECORD, INPUTS, SCRIPT = "hit.json", "inputs.npz", "reproduce.py"


@dataclass
class Hit:
    """A confirmed hit. point, ancestor: `[n]`; replays: how many of the replays showed it, of how many."""

    finding: Finding
    point: Array
    ancestor: Array
    oldest: int  # the start that it descends from
    replayed: int
    replays: int
    evaluations: int  # when it was found
    seconds: float
    minimised: bool = False
    count: int = 1  # hits of this cause so far
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def stable(self) -> bool:
        """Whether every replay showed it."""
        return self.replayed == self.replays


def folder_name(cause: str) -> str:
    """A cause as the name of a folder: readable, and different for different causes."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", cause).strip("_.")[:60]
    if plain == cause:
        return plain
    return f"{plain}-{hashlib.sha256(cause.encode()).hexdigest()[:8]}"


def write_hit(hit: Hit, space: Space, reproducer: Reproducer, root: Path) -> Path:
    """Write a hit's folder, whole or not at all. Raises InputError where it cannot be written."""
    from onnx import numpy_helper

    folder = root / folder_name(hit.finding.cause)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inputs = {name: array[0] for name, array in space.split(hit.point[None]).items()}
        with (folder / ".inputs.npz").open("wb") as file:
            np.savez(file, **inputs)
        os.replace(folder / ".inputs.npz", folder / INPUTS)
        for i, (name, array) in enumerate(inputs.items()):
            tensor = numpy_helper.from_array(array, name)
            replace(folder / f"input_{i}.pb", tensor.SerializeToString())
        models = {name: _model_path(model, name, folder) for name, model in reproducer.models.items()}
        replace(folder / SCRIPT, script(hit.finding, reproducer, models))
        replace(folder / RECORD, json.dumps(record(hit, space, models, reproducer, folder), indent=1) + "\n")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}): choose another folder with --out") from None
    return folder


def record(hit: Hit, space: Space, models: dict[str, str], reproducer: Reproducer, folder: Path) -> dict[str, Any]:
    """The hit as JSON."""
    changed = np.flatnonzero(hit.point != hit.ancestor)
    distance = np.abs(hit.point.astype(np.float64) - hit.ancestor.astype(np.float64))
    return {
        "cause": hit.finding.cause,
        "summary": hit.finding.summary,
        "details": hit.finding.details,
        "stable": hit.stable,
        "replayed": hit.replayed,
        "replays": hit.replays,
        "minimised": hit.minimised,
        "changed_dimensions": len(changed),
        "dimensions": space.n,
        "largest_change": float(distance.max(initial=0.0)),
        "evaluations": hit.evaluations,
        "seconds": round(hit.seconds, 3),
        "inputs": [
            {"name": i.name, "shape": list(i.shape), "type": str(i.dtype), "tensor": f"input_{k}.pb"}
            for k, i in enumerate(space.infos)
        ],
        "models": {
            name: {
                "file": models[name],
                "tensors": list(model.tensors),
                "sha256": hashlib.sha256(model.network.data).hexdigest(),
                "original": _original(model, folder),
            }
            for name, model in reproducer.models.items()
        },
        "settings": hit.settings,
    }


def script(finding: Finding, reproducer: Reproducer, models: dict[str, str]) -> str:
    """A script that needs numpy and onnxruntime alone: exit status 1 while the hit reproduces, 2 without a model."""
    exact = any(m.tensors for m in reproducer.models.values())
    lines = [
        f'"""{_plain(finding.summary)}. Exits with 1 while that is so."""',
        "import os, sys, numpy, onnxruntime",
        "os.chdir(os.path.dirname(os.path.abspath(__file__)))",
        "feed = dict(numpy.load('inputs.npz'))",
        "options = onnxruntime.SessionOptions()",
        *(["options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL"] if exact else []),
        "def load(path):",
        "    try:",
        "        return onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])",
        "    except Exception as error:",
        "        why = ' '.join(str(error).split()) if os.path.exists(path) else 'there is no such model'",
        "        print(f'{os.path.abspath(path)}: {why}: put the path of the model into {__file__}', file=sys.stderr)",
        "        sys.exit(2)",
        "run = lambda model, feed, *names: model.run(names or None, feed)",
        *(f"{name} = load({path!r})" for name, path in models.items()),
        *reproducer.lines,
        "sys.exit(1 if reproduced else 0)",
    ]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")


def _model_path(model: Model, name: str, folder: Path) -> str:
    """Where the script finds a model, as seen from the folder: the original, or a copy that shows inner tensors."""
    network = model.network
    own = {o.name for o in network.reference.outputs}
    missing = [tensor for tensor in model.tensors if tensor not in own]
    if not missing and network.path is not None and network.plain:
        return _relative(network.path, folder)
    from falsifier.fuzz.exposed import exposed_model

    proto = exposed_model(network, missing) if missing else network.proto()
    replace(folder / f"{name}.onnx", proto.SerializeToString())
    return f"{name}.onnx"


def _original(model: Model, folder: Path) -> str | None:
    path = model.network.path
    return None if path is None else _relative(path, folder)


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path.resolve(), folder.resolve())


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a hit's folder. Raises InputError where it is none."""
    try:
        found = json.loads(read_text(folder / RECORD))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{folder / RECORD}: is not the record of a hit ({error})") from None
    if not isinstance(found, dict) or "cause" not in found:
        raise InputError(f"{folder / RECORD}: is not the record of a hit: it names no cause")
    return found

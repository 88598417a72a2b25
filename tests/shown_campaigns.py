"""A campaign with something to see: a classifier of 8x8 images and one of three numbers, witnesses worked out here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import models
import numpy as np
from numpy.typing import ArrayLike
from recorded import Attempt, Instance, write_record

from falsifier.campaign.plan import Job, QueryFile, arranged
from falsifier.instance import NamedNetwork

SIDE = 8
EPSILON = 0.125


def witness_text(x: ArrayLike, y: ArrayLike) -> str:
    pairs = [
        f"({name}_{i} {float(v)!r})"
        for name, values in (("X", x), ("Y", y))
        for i, v in enumerate(np.asarray(values, np.float64))
    ]
    return "(" + "\n".join(pairs) + ")\n"


def image_instance(folder: Path, number: int = 0) -> Instance:
    """Class 0 is the mean of the left half, class 1 that of the right; the witness makes the right one brighter."""
    left = np.zeros((SIDE, SIDE))
    left[:, : SIDE // 2] = 2 / SIDE**2
    weight = np.stack([left.ravel(), left[:, ::-1].ravel()]).astype(np.float32)
    flatten: models.Step = ("Flatten", [], {})
    network = models.save(
        models.chain([flatten, models.gemm(weight)], [1, 1, SIDE, SIDE], [1, 2]), folder / "image.onnx"
    )
    centre = np.where(left > 0, 0.5, 0.4375).ravel()
    low, high = (centre + side * EPSILON for side in (-1, 1))
    query = folder / f"image_{number}.vnnlib"
    text = models.declare(SIDE**2, 2) + models.box(low.tolist(), high.tolist()) + "(assert (>= Y_1 Y_0))\n"
    query.write_text(text)
    point = np.where(left.ravel() > 0, low, high)
    made = [Attempt(seconds=0.25 + number, evaluations=100 * (number + 1), witness=witness_text(point, weight @ point))]
    return known(Instance("images", "image.onnx", query.name, made, network, query))


def box_instance(folder: Path) -> Instance:
    """Three numbers, the last of them pinned, in one of two boxes."""
    network = models.save(models.affine([[1.0, 1.0, 0.0], [0.0, -1.0, 2.0]]), folder / "sums.onnx")
    query = folder / "box.vnnlib"
    boxes = " ".join(f"(and (>= X_0 {a}) (<= X_0 {a + 1}) (>= X_1 0) (<= X_1 1))" for a in (0, 10))
    text = models.declare(3, 2) + f"(assert (or {boxes}))\n(assert (= X_2 0.5))\n(assert (>= Y_0 11.5))\n"
    query.write_text(text)
    made = [Attempt(witness=witness_text([10.75, 1.0, 0.5], [11.75, 0.0]))]
    return known(Instance("numbers", "sums.onnx", query.name, made, network, query))


def known(instance: Instance) -> Instance:
    """With the digests of its files as a campaign notes them."""
    assert instance.network is not None
    assert instance.query is not None
    networks = (NamedNetwork(None, instance.network),)
    (job,) = arranged([Job("", "", "", 0.0, networks, QueryFile(instance.query))])
    return replace(instance, network_hash=job.network_hash, query_hash=job.query_hash)


def open_instances(count: int) -> list[Instance]:
    """Without a witness, their margins known."""
    return [
        Instance(
            "open",
            "net.onnx",
            f"open_{i}.vnnlib",
            [Attempt("timeout", seconds=5.0 + i, margins=(-0.5 - i, -2.0), disjuncts=(3, 5), reason="the limit")],
        )
        for i in range(count)
    ]


def campaign(folder: Path, pictures: int = 3, open_: int = 4, facts: dict[str, object] | None = None) -> Path:
    """A record of all of these in `folder/night`; returns that folder."""
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    instances = [*(image_instance(files, i) for i in range(pictures)), box_instance(files), *open_instances(open_)]
    samples = [(float(t), t // 4, min(t, 4), 100 * t, t / 10) for t in range(8)]
    write_record(folder / "night", instances, samples, facts or {})
    return folder / "night"

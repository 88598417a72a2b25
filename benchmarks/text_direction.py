"""A classifier from a package, without any query: which lines of text does a small change turn upside down?

    python benchmarks/text_direction.py [--model MODEL.onnx] [--images 48] [--epsilon 0.1] [--timeout 5]
        [--rng-seed 0] [--out REPORT.json]

The model is the direction classifier (upright or turned by 180 degrees) that the package `rapidocr-onnxruntime` ships,
found where that is installed. Lines of text are rendered with Pillow, every other one turned, and become the samples of
one `falsifier campaign --dataset`: an input may move by epsilon, in a range of -1 to 1, and a witness makes the other
direction win. Prints JSON.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers_machine import load_average, machine, versions

PACKAGE, FILE = "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
HEIGHT, WIDTH = 48, 192
WORDS = ("batch", "campaign", "witness", "margin", "corpus", "energy", "target", "query", "network", "lane", "budget")


def shipped_model() -> Path | None:
    """The model in the installed package, which is not imported."""
    found = importlib.util.find_spec(PACKAGE)
    folder = None if found is None or found.origin is None else Path(found.origin).parent
    return None if folder is None or not (folder / FILE).exists() else folder / FILE


def rendered(count: int, rng_seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Lines of text `[N, 3, 48, 192]` in [-1, 1] and their labels: 0 upright, 1 turned."""
    from PIL import Image, ImageDraw, ImageFont

    rng = np.random.default_rng(rng_seed)
    x, y = np.zeros((count, 3, HEIGHT, WIDTH), np.float32), np.arange(count) % 2
    for i in range(count):
        text = " ".join(rng.choice(WORDS, 2))
        paper, ink = (int(v) for v in (rng.integers(180, 256), rng.integers(0, 80)))
        image = Image.new("RGB", (WIDTH, HEIGHT), (paper, paper, paper))
        font = ImageFont.load_default(int(rng.integers(16, 26)))
        ImageDraw.Draw(image).text((int(rng.integers(2, 12)), int(rng.integers(4, 16))), text, (ink, ink, ink), font)
        pixels = np.asarray(image.rotate(180) if y[i] else image, dtype=np.float32)
        x[i] = pixels.transpose(2, 0, 1) / 127.5 - 1
    return x, y.astype(np.int64)


def measure(options: argparse.Namespace, model: Path) -> dict[str, Any]:
    """One campaign over the rendered lines."""
    x, y = rendered(options.images, options.rng_seed)
    with tempfile.TemporaryDirectory(prefix="text-direction-") as folder:
        np.savez(Path(folder) / "lines.npz", x=x, y=y)
        words = [sys.executable, "-m", "falsifier", "campaign", str(model), "--dataset", f"{folder}/lines.npz"]
        words += ["--epsilon", str(options.epsilon), "--clip", "-1", "1", "--timeout", str(options.timeout)]
        load, start = load_average(), time.monotonic()
        subprocess.run([*words, "--out", f"{folder}/out"], check=True)
        seconds = time.monotonic() - start
        with (Path(folder) / "out" / "results.csv").open(newline="") as file:
            verdicts = Counter(row[4] for row in csv.reader(file))
    return {
        "images": options.images,
        "epsilon": options.epsilon,
        "timeout": options.timeout,
        "seconds": round(seconds, 2),
        "load": load,
        "verdicts": dict(verdicts),
    }


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--images", type=int, default=48)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--timeout", type=float, default=5.0)
    parser.add_argument("--rng-seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    return parser.parse_args(words)


def main() -> int:
    options = parse()
    model = options.model or shipped_model()
    if model is None:
        print("the model is missing: pip install --no-deps rapidocr-onnxruntime, or give --model", file=sys.stderr)
        return 2
    text = json.dumps({"machine": machine(), "versions": versions(), "campaign": measure(options, model)}, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

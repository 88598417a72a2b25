"""Companions that behave in some way, for tests: `python -m actors DESCRIPTOR PARENT`, the way in ACTOR."""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

from falsifier.companions.telling import Kind, Task, Told

RIGHT = [0.75]  # a witness of the instance that `troupe` makes


def main() -> None:
    descriptor, act = int(sys.argv[1]), os.environ["ACTOR"]
    task = Task.unpacked(sys.stdin.buffer.readline())
    notes = os.environ.get("ACTOR_NOTES")
    if notes:
        with open(notes, "a") as file:
            file.write(json.dumps([task.rng_seed, task.portfolio, os.environ["OMP_NUM_THREADS"]]) + "\n")

    def tell(kind: Kind, point: list[float], target: int = 0) -> None:
        os.write(descriptor, Told(kind, target, 7, "hopping", np.array(point)).packed())

    match act:
        case "finds":
            tell(Kind.STANDS, [])
            tell(Kind.FOUND, RIGHT)
        case "dies":
            os.abort()
        case "mumbles":
            os.write(descriptor, b"Traceback (most recent call last):\n" + bytes(range(256)))
            time.sleep(600)
        case "lies":
            for number in range(10**9):
                tell(Kind.FOUND, [-0.75 + number / 2**30])
        case "exaggerates":
            tell(Kind.FOUND, RIGHT, target=9)
            time.sleep(600)
        case "is not a number":
            tell(Kind.FOUND, [float("nan")])
            time.sleep(600)
        case "breaks off":
            os.write(descriptor, Told(Kind.FOUND, 0, 7, "hopping", np.array(RIGHT)).packed()[:-3])
            time.sleep(600)
        case "is silent":
            time.sleep(600)
        case "gives up":
            tell(Kind.STANDS, [])


if __name__ == "__main__":
    main()

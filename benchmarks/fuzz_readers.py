"""Fuzzes the two readers of queries, or the loading of networks: mutated texts and models, led by coverage where the
package atheris is there. Prints JSON: executions, edges, and every kind of failure with an input that shows it.

A process of its own does the work, so that a library that ends it costs one case: what was being read stands in a
file. A case that takes longer than --limit seconds of CPU time is a hang, and counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MEMORY = 6 << 30  # of the address space of a worker
_GRACE = 5.0  # seconds over the limit after which a worker is ended from outside


class Worker:
    """Judges cases one after the other and notes what became of them in a folder."""

    def __init__(self, options: argparse.Namespace, judge: Callable[[bytes], str]) -> None:
        self.folder, self.limit, self.judge = Path(options.work), options.limit, judge
        self.outcomes: Counter[str] = Counter()
        self.seen = set(json.loads((self.folder / "seen.json").read_text()))
        self.current = os.open(self.folder / "current", os.O_RDWR | os.O_CREAT)
        self.executions = 0
        self.end = time.monotonic() + options.seconds

    def case(self, data: bytes) -> None:
        """Judge one case."""
        os.pwrite(self.current, len(data).to_bytes(8, "little") + data, 0)
        before = time.process_time()
        try:
            outcome = self.judge(data)
        except Exception as error:  # noqa: BLE001 - what a reader must not raise is what is looked for
            outcome = "failure"
            self.note(data, _kind(error), "".join(traceback.format_exception(error)[-3:]))
        seconds = time.process_time() - before
        if seconds > self.limit:
            outcome = "hang"
            self.note(data, "hang", f"{seconds:.1f} s")
        self.outcomes[outcome] += 1
        self.executions += 1
        if self.executions % 64 == 0:
            self.write()
        if time.monotonic() > self.end:
            self.write()
            os._exit(0)

    def note(self, data: bytes, kind: str, text: str) -> None:
        """Keep the shortest input of each kind of failure."""
        name = re.sub(r"\W+", "_", kind)[:80]
        path = self.folder / f"failure-{name}"
        if kind not in self.seen or not path.exists() or path.stat().st_size > len(data):
            self.seen.add(kind)
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(f"{kind}\n{text}")

    def write(self) -> None:
        """The numbers so far."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        record = {
            "executions": self.executions,
            "outcomes": dict(self.outcomes),
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_bytes": usage.ru_maxrss * 1024,
        }
        part = self.folder / "numbers.part"
        part.write_text(json.dumps(record))
        part.replace(self.folder / "numbers.json")


def _kind(error: Exception) -> str:
    """What makes two failures one: the type, and where in the package it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/falsifier/" in f.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    return f"{type(error).__name__} in {where}" + (f" {' '.join(str(error).split())[:30]}" if not frames else "")


def _query_judge() -> Callable[[bytes], str]:
    from reader_judge import judge

    return judge


def _network_judge() -> Callable[[bytes], str]:
    import numpy as np

    from falsifier.errors import InputError, UnsupportedError
    from falsifier.network import load

    def judge(data: bytes) -> str:
        try:
            network = load(data)
            reference = network.reference
            if reference.n > 10**4:
                return "large"
            reference.run_flat(np.zeros(reference.n, reference.dtype))
            network.lowered  # noqa: B018 - made when it is asked for
        except InputError as error:
            return _one_line(error, "refused")
        except UnsupportedError as error:
            return _one_line(error, "unsupported")
        except MemoryError:
            return "out of memory"
        return "lowered"

    return judge


def _one_line(error: Exception, outcome: str) -> str:
    if not re.fullmatch(r"[^\n\r]+", str(error)):
        raise AssertionError(f"not one line: {error!s}")
    return outcome


def _mutator(kind: str, seeds: list[bytes]) -> Callable[[bytes, random.Random], bytes]:
    from reader_grammar import grown_text
    from reader_mutations import mutated_model, mutated_text

    if kind == "queries":

        def mutated(data: bytes, rng: random.Random) -> bytes:
            # what was refused is kept for its coverage: half of the cases begin with a text that is read
            if rng.random() < 0.5:
                data = grown_text(rng)
                if rng.random() < 0.6:
                    return data
            return mutated_text(data, rng, rng.choice(seeds))

        return mutated
    import onnx

    names = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
    return lambda data, rng: mutated_model(data, rng, names)


def _seeds(kind: str) -> list[bytes]:
    if kind == "queries":
        from reader_mutations import SEEDS

        return SEEDS
    from reader_models import seeds

    return seeds()


def _work(options: argparse.Namespace) -> None:
    """Fuzz until the time is over. Never returns."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        import atheris
    except ImportError:
        atheris = None
    if atheris is None or options.blind:
        worker = Worker(options, _judge(options.kind))
        _blind(options, worker)
    else:
        with atheris.instrument_imports(include=["falsifier.query", "falsifier.spec", "falsifier.network"]):
            judge = _judge(options.kind)
            if options.kind == "networks":
                import falsifier.network.lowering
                import falsifier.network.operators
            else:
                import falsifier.query.v1
                import falsifier.query.v2  # noqa: F401
        worker = Worker(options, judge)
        seeds = _seeds(options.kind)
        mutate = _mutator(options.kind, seeds)

        def custom(data: bytes, most: int, number: int) -> bytes:
            rng = random.Random(number)
            if rng.random() < 0.05:
                return bytes(atheris.Mutate(data, most))
            return mutate(data, rng)[:most]

        # libFuzzer's own guards would end the process: the worker has its own, and counts instead
        flags = ["-timeout=1000000", "-rss_limit_mb=0", "-malloc_limit_mb=0", "-detect_leaks=0", "-handle_segv=0"]
        flags += ["-handle_abrt=0", "-reload=0", "-mutate_depth=1", f"-max_len={1 << 14}"]
        flags += [f"-seed={options.rng_seed + 1}", f"-artifact_prefix={options.work}/"]
        atheris.Setup([sys.argv[0], *flags, options.corpus], worker.case, custom_mutator=custom)
        atheris.Fuzz()
    os._exit(0)


def _judge(kind: str) -> Callable[[bytes], str]:
    return _query_judge() if kind == "queries" else _network_judge()


def _blind(options: argparse.Namespace, worker: Worker) -> None:
    """Without coverage: changes of changes of the seeds."""
    seeds = _seeds(options.kind)
    mutate = _mutator(options.kind, seeds)
    rng = random.Random(options.rng_seed)
    while True:
        data = rng.choice(seeds)
        for _ in range(rng.choice((1, 2, 4, 8))):
            data = mutate(data, rng)[: 1 << 14]
            worker.case(data)


def _watch(options: argparse.Namespace, folder: Path, seconds: float, number: int) -> dict[str, Any]:
    """Run a worker for some time; what it found, and the case at which it ended before."""
    words = [sys.executable, __file__, options.kind, "--work", str(folder), "--corpus", options.corpus]
    words += ["--seconds", str(seconds), "--limit", str(options.limit), "--rng-seed", str(options.rng_seed + number)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*words, *(["--blind"] if options.blind else [])], stderr=log, stdout=log)
        stuck = _wait(process, folder, options.limit)
    numbers = folder / "numbers.json"
    found: dict[str, Any] = json.loads(numbers.read_text()) if numbers.exists() else {"executions": 0, "outcomes": {}}
    numbers.unlink(missing_ok=True)
    text = (folder / "log").read_text(errors="replace")
    edges = [int(e) for e in re.findall(r"cov: (\d+)", text)]
    found["edges"] = [edges[0], edges[-1]] if edges else None
    if process.returncode or stuck:
        raw = (folder / "current").read_bytes()
        case = raw[8 : 8 + int.from_bytes(raw[:8], "little")]
        reason = "hang" if stuck else f"ended by signal {-process.returncode}" if process.returncode < 0 else "ended"
        (folder / f"failure-process-{number}").write_bytes(case)
        (folder / f"failure-process-{number}.txt").write_text(f"{reason}\n{text[-1500:]}")
        found["ended"] = reason
    return found


def _wait(process: subprocess.Popen[bytes], folder: Path, limit: float) -> bool:
    """Wait for a worker; one whose case does not change for too long is ended."""
    last, since = b"", time.monotonic()
    while process.poll() is None:
        time.sleep(0.5)
        path = folder / "current"
        now = path.read_bytes()[:64] + str(path.stat().st_mtime_ns).encode() if path.exists() else b""
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 10 * limit + _GRACE and path.exists():  # of the wall: a machine may be loaded
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
    return False


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fuzz for the time that was asked for, in as many processes as that takes."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.out or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        options.corpus = options.corpus or str(folder / "corpus")
        Path(options.corpus).mkdir(exist_ok=True)
        for i, seed in enumerate(_seeds(options.kind)):
            (Path(options.corpus) / f"seed-{i}").write_bytes(seed)
        for path in sorted(Path(p) for p in options.add):
            (Path(options.corpus) / path.name).write_bytes(path.read_bytes())
        (folder / "seen.json").write_text("[]")
        end = time.monotonic() + options.seconds
        runs: list[dict[str, Any]] = []
        while (left := end - time.monotonic()) > 1 or not runs:
            runs.append(_watch(options, folder, left, len(runs)))
        outcomes: Counter[str] = Counter()
        for one in runs:
            outcomes.update(one["outcomes"])
        edges = [one["edges"] for one in runs if one["edges"]]
        failures = {
            path.name.removeprefix("failure-"): path.read_text().splitlines()[0]
            for path in sorted(folder.glob("failure-*.txt"))
        }
        return {
            "kind": options.kind,
            "executions": sum(one["executions"] for one in runs),
            "outcomes": dict(outcomes),
            "cpu_seconds": round(sum(one.get("cpu_seconds", 0.0) for one in runs), 1),
            "peak_bytes": max(one.get("peak_bytes", 0) for one in runs),
            "edges_at_start": edges[0][0] if edges else None,
            "edges_at_end": max(e[1] for e in edges) if edges else None,
            "processes": len(runs),
            "processes_ended": [one["ended"] for one in runs if "ended" in one],
            "corpus": len(list(Path(options.corpus).iterdir())),
            "failures": failures,
            "rng_seed": options.rng_seed,
            "limit_seconds": options.limit,
            "machine": platform.machine(),
            "python": platform.python_version(),
        }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("kind", choices=("queries", "networks"))
    add("--seconds", type=float, default=60.0, help="of the wall clock (default 60)")
    add("--limit", type=float, default=5.0, help="seconds of CPU time that a case may take (default 5)")
    add("--rng-seed", type=int, default=0)
    add("--blind", action="store_true", help="without coverage, as where atheris is missing")
    add("--corpus", help="a folder of cases to begin with, which grows (default: one that is thrown away)")
    add("--add", nargs="*", default=[], help="further cases to begin with")
    add("--out", help="a folder for the inputs of failures")
    add("--work", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    given = _parser().parse_args()
    if given.work:
        _work(given)
    print(json.dumps(run(given), indent=1))

"""`falsifier fuzz`: look for inputs that make a network fail, without a query."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from falsifier import output_file
from falsifier.cli.arguments import Parser, input_shape, non_negative_int, positive_int
from falsifier.cli.outputs import demand_others
from falsifier.counted import counted
from falsifier.errors import InputError

if TYPE_CHECKING:
    from falsifier.fuzz.findings import Findings
    from falsifier.fuzz.hit import Hit
    from falsifier.fuzz.loop import Progress
    from falsifier.fuzz.run import Report
    from falsifier.fuzz.settings import Settings


def run(words: list[str], started: float) -> int:
    """Print the causes, one a line, and why the run ended. Exit status 0; with --exit-code 1 where there are hits."""
    options = _parser().parse_args(list(_joined(words)))
    settings = _settings(options)
    _demand_spared(options, settings)

    from falsifier.fuzz.build import build
    from falsifier.fuzz.run import run as fuzz

    fuzzer = build(settings)
    if not options.quiet:
        for note in fuzzer.notes:
            print(f"falsifier: {note}", file=sys.stderr)
    line = None if options.quiet else ProgressLine()
    report = fuzz(fuzzer, line)
    if options.json == "-":
        if line is not None:
            line.end(report)
        print(json.dumps(report.to_json(), indent=1))
    else:
        _print(report)
        if not options.quiet:
            for note in report.notes[len(fuzzer.notes) :]:
                print(f"falsifier: {note}", file=sys.stderr)
        if options.json is not None:
            output_file.write(options.json, json.dumps(report.to_json(), indent=1) + "\n", "the report (--json)")
    return 1 if options.exit_code and report.hits else 0


def _demand_spared(options: argparse.Namespace, settings: Settings) -> None:
    """Raise InputError where the report would take the place of a file that the run reads, or of its session."""
    words = options.objective.removeprefix("words:") if options.objective.startswith("words:") else None
    models = [model for model in (options.model, options.against) if model is not None]
    demand_others({"--json": options.json}, [options.inputs, options.tokens, words], models, "the run")
    if settings.out is not None:
        from falsifier.fuzz.store import DATABASE

        demand_others({"--json": options.json}, [settings.out / DATABASE], (), "the session")


def _joined(words: list[str]) -> Iterator[str]:
    """The words, with the argument of --range in one word with it: a range may begin with a minus sign."""
    left = iter(words)
    for word in left:
        yield f"{word}={next(left, '')}" if word == "--range" else word


class ProgressLine:
    """Progress on standard error: one line a second, rewritten in place on a terminal, every tenth elsewhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._terminal = clock, sys.stderr.isatty()
        self._calls = 0
        self._shown = clock(), 0, 0  # when the last line was written, and evaluations and coverage by then

    def __call__(self, progress: Progress, findings: Findings) -> None:
        self._calls += 1
        if self._terminal or self._calls % 10 == 1:
            text = self._text(progress, findings.hits)
            if self._terminal:
                print(f"\r{text[:118]:118}", end="", file=sys.stderr, flush=True)
            else:
                print(f"falsifier: {text}", file=sys.stderr, flush=True)

    def end(self, report: Report) -> None:
        """The last line: where it all stood, over the whole run, and why it stopped."""
        self._shown = self._clock() - report.seconds, 0, 0
        start = "\r\x1b[K" if self._terminal and self._calls else ""
        print(f"{start}falsifier: {self._text(report.progress, report.hits)}: {report.stop.value}", file=sys.stderr)

    def _text(self, progress: Progress, hits: Mapping[str, Hit]) -> str:
        then, evaluations, covered = self._shown
        now = self._clock()
        self._shown = now, progress.evaluations, progress.covered
        rate = (progress.evaluations - evaluations) / max(now - then, 1e-9)
        causes = ", ".join(f"{cause} x{hit.count}" for cause, hit in list(hits.items())[-4:]) or "no hits"
        more = f"{len(hits)} causes: ..., " if len(hits) > 4 else ""
        return (
            f"{progress.evaluations} evaluations, {rate:.0f}/s, {progress.entries} entries, "
            f"{progress.covered} covered (+{progress.covered - covered}); {more}{causes}"
        )


def _print(report: Report) -> None:
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for cause, hit in report.hits.items():
        word = "" if hit.stable else f"unstable ({hit.replayed} of {hit.replays} replays): "
        folder = report.folders.get(cause)
        print(f"{word}{hit.finding.summary}" + (f" [{folder}]" if folder is not None else ""))
    p = report.progress
    earlier = len(report.records) - len(report.hits)
    known = f" beside {earlier} of earlier runs" if earlier > 0 else ""
    refused = f", {counted(report.refused, 'candidate')} not confirmed" if report.refused else ""
    print(
        f"{counted(len(report.hits), 'cause')}{known} in {counted(p.evaluations, 'evaluation')}, "
        f"{p.evaluations / max(report.seconds, 1e-9):.0f}/s{refused}: {report.stop.value}"
    )


def _settings(options: argparse.Namespace) -> Settings:
    tolerance = _tolerance(options.tolerance)
    from falsifier.fuzz.settings import Settings

    return Settings(
        model=options.model,
        objective=options.objective,
        against=options.against,
        tolerance=tolerance,
        inputs=options.inputs,
        ranges=dict(_range(text) for text in options.range),
        radius=options.radius,
        shapes=dict(options.shape),
        mutators=tuple(options.mutators),
        only_mutators=options.only_mutators,
        coverage=options.coverage,
        cover=tuple(options.cover),
        threshold=options.threshold,
        exact_coverage=options.exact_coverage,
        tokens=options.tokens,
        prompt_length=options.prompt_length,
        generate=options.generate,
        sample_seed=options.sample,
        temperature=options.temperature,
        lanes=options.lanes,
        rng_seed=options.rng_seed,
        seconds=options.budget,
        max_evaluations=options.max_evaluations,
        causes=options.causes,
        replays=options.replays,
        minimise=not options.no_minimise,
        out=options.out or (Path(f"{options.model.name.split('.')[0]}.fuzz")),
        resume=options.resume,
        as_vnnlib=options.as_vnnlib,
    )


def _tolerance(text: str) -> float | None:
    if text == "argmax":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise InputError(f"--tolerance {text!r}: is neither argmax nor a number that is not negative")
    return value


def _range(text: str) -> tuple[str, tuple[float, float]]:
    from falsifier.fuzz.build import parse_range

    name, equals, ends = text.rpartition("=")
    return (name if equals else ""), parse_range(ends, "--range [NAME=]LOW,HIGH")


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _parser() -> Parser:
    parser = Parser("fuzz", "Look for inputs that make a network fail; hits lie in a folder per cause.")
    add: Any = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="an ONNX file, plain or gzip")
    add(
        "--objective",
        default="nonfinite",
        help="nonfinite, disagree, range:LOW,HIGH, top1, words:FILE or module:function (default nonfinite)",
    )
    add("--against", type=Path, metavar="MODEL", help="disagree: the other model (falsifier quantize makes one)")
    add("--tolerance", default="argmax", help="disagree: argmax, or the difference that is allowed (default argmax)")
    add(
        "--inputs",
        type=Path,
        metavar="FILE",
        help="starts: .npz by input name (a lone array: any); for words a text, one prompt a line",
    )
    add("--radius", type=_positive, help="how far float inputs may be from the start they descend from")
    add("--range", action="append", default=[], metavar="[NAME=]LOW,HIGH", help="ends of inputs, both included")
    add("--shape", type=input_shape, action="append", default=[], metavar="NAME=D,D,...", help="of an open input")
    add("--mutators", action="append", default=[], metavar="NAME", help="another mutator, module:function")
    add("--only-mutators", action="store_true", help="none but those named")
    add("--coverage", default="nearest", help="nearest, neurons, patterns or none (default nearest)")
    add("--cover", action="append", default=[], metavar="TENSOR", help="cover this tensor instead of the outputs")
    add("--threshold", type=_positive, help="squared distance from which a vector is new (default: measured)")
    add("--exact-coverage", action="store_true", help="search neighbours exactly however many are kept")
    add("--tokens", type=Path, metavar="FILE", help="a vocabulary, JSON: for text")
    add("--prompt-length", type=positive_int, default=24, help="words: tokens of a prompt, at most (default 24)")
    add("--generate", type=positive_int, default=32, help="words: tokens that the model writes (default 32)")
    add("--sample", type=non_negative_int, metavar="SEED", help="words: sample with this rng seed (default greedy)")
    add("--temperature", type=_positive, default=1.0, help="of sampling (default 1)")
    add("--budget", type=_positive, default=60.0, metavar="SECONDS", help="how long (default 60)")
    add("--max-evaluations", type=positive_int, metavar="N", help="stop after so many at the most")
    add(
        "--causes",
        type=positive_int,
        metavar="N",
        help="stop after the batch with which at least so many different causes are found",
    )
    add("--lanes", type=positive_int, help="points of a batch (default: by the model's size)")
    add("--rng-seed", type=non_negative_int, default=0, help="of all random draws (default 0)")
    add("--replays", type=positive_int, default=10, help="of each hit on the original (default 10)")
    add("--no-minimise", action="store_true", help="leave hits as they were found")
    add("--as-vnnlib", action="store_true", help="write the query whose witness a hit is beside it")
    add("--out", type=Path, metavar="DIR", help="the session's folder (default MODEL.fuzz here)")
    add("--resume", action="store_true", help="go on with the session in --out")
    add("--exit-code", action="store_true", help="exit with 1 where there are hits")
    add("--json", metavar="FILE", help="the report as JSON; - prints it")
    add("--quiet", action="store_true", help="no progress on standard error")
    return parser

"""`falsifier verify`: one instance, answered in the words of the VNN-LIB standard (section 5) on stdout."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from falsifier import output_file
from falsifier.cli.arguments import Parser, positive_int, workers
from falsifier.cli.process import Guard, age, ended
from falsifier.cli.results_file import ResultsFile, demand_others
from falsifier.cli.then import adapter_of, add_then, searching
from falsifier.errors import FalsifierError, InputError, UnboundedError
from falsifier.instance import LINE_ENDS, Instance, parse_networks, parse_seconds
from falsifier.verdict import StopReason, Verdict

if TYPE_CHECKING:
    from falsifier.cli.refine import Kept
    from falsifier.falsify import Prepared
    from falsifier.handoff.adapter import Adapter
    from falsifier.result import Result

DEFAULT_TIMEOUT = 60.0  # seconds
_DIGESTED, _BLOCK = 4e8, 1 << 20  # bytes of files: those that a second of SHA-256 takes, and those read at once
_FURTHER = ("all_witnesses", "distinct", "apart", "nearest", "norm", "witnesses", "start")
_WORDS = {"timeout": "timed-out", "error": "unknown"}  # the standard's words where they differ from the competition's


def run(words: list[str], started: float) -> int:
    """Run the command; `started` is the reading of `time.monotonic` that the time limit counts from."""
    return carry_out(parser().parse_args(words), started, Verification)


def carry_out(options: Namespace, started: float, make: Callable[..., Verification]) -> int:
    """Verify as the options say and return the exit status. `make` is `Verification` or something like it."""
    options.caller = options.since if options.since == os.getppid() else None
    if options.since is not None:
        started = min(started, time.monotonic() - age(options.since))
        if options.caller is None and ended(options.since):
            # nothing is written: where the answer would go another run may have begun
            raise InputError(f"--since {options.since}: this process has ended: nobody waits for the answer")
    demand_others(options)
    results = ResultsFile(options.results.strip(LINE_ENDS)) if options.results is not None else None
    try:
        return make(options, started, results).run()
    except UnboundedError as error:
        if results is None:
            raise
        results.write("unknown\n")
        print(f"falsifier: {error}", file=sys.stderr)
        return 0
    except BaseException as error:
        if results and not isinstance(error, KeyboardInterrupt):
            results.fail()
        raise


class Verification:
    """One run of the command: what it was asked, and the best answer so far."""

    def __init__(self, options: Namespace, started: float, results: ResultsFile | None) -> None:
        limit = parse_seconds(options.timeout) if options.timeout is not None else DEFAULT_TIMEOUT
        query = Path(options.query.strip(LINE_ENDS))
        self.instance = Instance(parse_networks(options.network), query, limit)
        self.options, self.results = options, results
        if options.assignments is not None:
            _require_writable(Path(options.assignments), folder=True)
        if options.json not in (None, "-"):
            _require_writable(Path(options.json), folder=False)
        # the answer has to be out by the limit: what is kept to spare pays for writing it
        self.spare = min(1.0, limit / 10)
        self.started, self.end = started, started + limit
        # of everything, and of the search
        self.last = self.deadline = self.end - self.spare - (self._reading(limit) if options.json else 0.0)
        self.preliminary: Result | None = None
        # made here: when the guard needs it the main thread may be importing something
        self.overdue = self.without_answer(StopReason.DEADLINE)
        self.kept: Kept | None = None  # where further witnesses go, if any are wanted
        self.guard: Guard | None = None
        if any(getattr(options, name) is not None for name in _FURTHER) or options.deepen:
            from falsifier.cli import refine

            if refine.asked(options):
                self.kept = refine.Kept(results, options.witnesses)
        self.prepared: Prepared | None = None
        self.adapter = self.choose_adapter()
        self.end_children: Callable[[], None] | None = None
        if self.adapter is not None:
            # imported here: when the guard needs it the main thread may be importing something
            from falsifier.handoff.children import end_all

            self.end_children = end_all
            self.deadline = min(self.last, started + searching(options, self.adapter, limit))

    def without_answer(self, reason: StopReason) -> Result:
        """What there is to say where the time or a signal ended the run first."""
        from falsifier.result import Result

        verdict = Verdict.TIMEOUT if reason is StopReason.DEADLINE else Verdict.UNKNOWN
        return Result(verdict, reason, reason.value, rng_seed=self.options.rng_seed)

    def _reading(self, limit: float) -> float:
        """Seconds that reading all files once more for their digests takes, about; at most a tenth of the limit."""
        sizes = [path.stat().st_size for path in self._files() if path.is_file()]
        return min(sum(sizes) / _DIGESTED, limit / 10)

    def _files(self) -> list[Path]:
        return [self.instance.query, *(network.path for network in self.instance.networks)]

    @property
    def workers(self) -> int | str:
        """How many processes search; with a cap on evaluations one unless asked, so that the result is reproducible."""
        given: int | str | None = self.options.workers
        return given or ("auto" if self.options.max_evaluations is None else 1)

    def choose_adapter(self) -> Adapter | None:
        """Who gets what stays open, None for nobody. Raises InputError as `cli.then.adapter_of` does."""
        return adapter_of(self.options)

    def run(self) -> int:
        end, spare = self.end, self.spare
        with Guard(end - spare / 2, end - spare / 4, self.cut_short, self.options.caller) as guard:
            self.guard = guard
            try:
                result = self.handed_over(self.falsify())
            except Exception as error:  # a confirmed witness must not be lost to an error that came after it
                if self.preliminary is None:
                    raise
                if isinstance(error, InputError):
                    pass  # about a file: writing the answer says so again
                elif isinstance(error, FalsifierError):
                    print(f"falsifier: {error}", file=sys.stderr)
                else:
                    import traceback

                    traceback.print_exc()
                result = self.preliminary
            with guard.answering():
                self._answer(result)
        return 0

    def falsify(self) -> Result:
        """Search, from the files to the result."""
        if not self.instance.networks:
            raise InputError(
                f"{self.instance.query}: give its network with --network FILE, several as --network NAME=FILE each"
            )
        if self.prepared is None:
            from falsifier.falsify import Prepared

            pairs = [(network.name, network.path) for network in self.instance.networks]
            self.prepared = Prepared(
                pairs,
                self.instance.query,
                device=self.options.device,
                require=self.options.require,
                portfolio=self.options.portfolio,
                budgets=self.options.budgets,
            )
        wish, witness = None, None
        if self.kept is not None:
            from falsifier.cli.refine import given_witness, refinement_of

            wish = refinement_of(self.options, self.prepared)
            if self.options.start is not None:
                witness = given_witness(Path(self.options.start), self.prepared)
        return self.prepared.search(
            self.deadline,
            rng_seed=self.options.rng_seed,
            max_evaluations=self.options.max_evaluations,
            report=self.keep,
            refinement=wish,
            witness=witness,
            workers=self.workers,
        )

    def handed_over(self, result: Result) -> Result:
        """The result after the hand-off, where one was asked for and the search left something open."""
        if self.adapter is None:
            return result
        from falsifier.handoff.hand_over import hand_over

        handed = hand_over(
            result,
            self.instance,
            self.adapter,
            self.last,
            tell=lambda line: print(f"falsifier: {line}", file=sys.stderr),
            prepared=self.prepared,
            device=self.options.device,
            require=self.options.require,
        )
        return self.resumed(handed)

    def resumed(self, result: Result) -> Result:
        """The time of a verifier that is not there goes to another search, with other draws."""
        record = result.handoff or {"available": True}
        if record["available"] or self.prepared is None or self.options.max_evaluations is not None:
            return result
        from falsifier.search.portfolio import stages_of

        stages = stages_of(self.options.portfolio)
        again = self.prepared.search(
            self.last, rng_seed=self.options.rng_seed + 1, report=self.keep, stages=stages, workers=self.workers
        )
        why = f"{again.reason_text}; {record['adapter']} {record['reason']}"
        seconds = {**again.seconds, "handoff": result.seconds["handoff"]}
        return replace(again, reason_text=why, handoff=record, seconds=seconds)

    def keep(self, result: Result) -> None:
        """Note an answer worth giving should the search be cut short; one that is to be bettered is written at once."""
        self.preliminary = result
        if self.kept is not None and self.guard is not None:
            with self.guard.holding():
                self.kept.keep(result)

    def cut_short(self, signal: int | None) -> int:
        """Called by the guard in place of an answer of the main thread."""
        if self.end_children is not None:
            self.end_children()
        if self.prepared is not None:
            self.prepared.end_companions()
        instead = self.overdue if signal is None else self.without_answer(StopReason.INTERRUPTED)
        try:
            self._answer(self.preliminary or instead)
            sys.stdout.flush()
        except (FalsifierError, OSError) as error:
            print(f"falsifier: {error}", file=sys.stderr)
            return 1
        return 0 if signal is None or self.results else 128 + signal

    def _answer(self, result: Result) -> None:
        """Give the answer wherever it was asked for."""
        text, more = "", ""
        if result.witness is not None and result.query is not None:
            from falsifier.witness.text import write_witness

            text = write_witness(result.query, result.witness)
        word = result.verdict.value
        failed: InputError | None = None
        if self.results and not self.results.stream:
            failed = _written(self.results, f"{word}\n{text}")
        if self.options.json != "-":
            print(f"{_WORDS.get(word, word)}\n{text}", end="", flush=True)
        if self.kept is not None:
            from falsifier.cli.refine import summary

            self.kept.write_folder(result)
            more = summary(result)
        if result.companions and result.companions["started"]:
            more = f"{_beside(result.companions)}{more}"
        if self.options.assignments and result.witness is not None and result.query is not None:
            from falsifier.witness.tensors import write_tensors

            write_tensors(result.query, result.witness, Path(self.options.assignments))
        if self.options.json:
            self._write_json(result)
        seconds = time.monotonic() - self.started
        kind = f" ({result.class_})" if result.class_ else ""
        print(f"falsifier: {word}{kind} after {seconds:.2f} s: {result.reason_text}{more}", file=sys.stderr)
        if self.results and self.results.stream:  # last: a pipe is waited for until somebody reads it
            failed = _written(self.results, f"{word}\n{text}")
        if failed is not None:
            raise failed

    def _write_json(self, result: Result) -> None:
        import json

        until = self.end - 3 * self.spare / 8  # before the process is ended
        record = result.to_json() | {"sha256": {str(path): _sha256(path, until) for path in self._files()}}
        text = json.dumps(record, allow_nan=False) + "\n"
        if self.options.json == "-":
            print(text, end="", flush=True)
            return
        try:
            output_file.replace(output_file.real(self.options.json), text)
        except OSError as error:
            raise output_file.unwritable(self.options.json, error, "the result (--json)") from None


def _written(results: ResultsFile, text: str) -> InputError | None:
    """What is in the way of it, to be said at the end: the answer goes wherever else it can."""
    try:
        results.write(text)
    except InputError as error:
        return error
    return None


def _beside(companions: Mapping[str, Any]) -> str:
    """What there was of companions, as the end of a sentence."""
    found, started = companions["found"], companions["started"]
    if found is not None:
        return f", found by companion {found} of {started}"
    return f"; {started} companion{'s' if started > 1 else ''} searched as well"


def _require_writable(path: Path, *, folder: bool) -> None:
    """Raise InputError, before time is spent on an answer, where a file or a folder cannot be made at `path`."""
    if path.exists() and path.is_dir() is not folder:
        raise InputError(f"{path}: cannot be written, it is {'no folder' if folder else 'a folder'}")
    above = os.path.dirname(os.path.realpath(path))
    if not folder and not os.path.isdir(above):
        raise InputError(f"{path}: cannot be written, there is no folder {above}")
    at = path.absolute()
    while not at.exists():
        at = at.parent
    if not os.access(at, os.W_OK) or (at != path.absolute() and not at.is_dir()):
        raise InputError(f"{path}: cannot be written, {at} is closed or no folder")


def _sha256(path: Path, until: float) -> str | None:
    """Of the file as it lies there; None where it cannot be read, or is large and not read by the time `until`."""
    from hashlib import sha256

    from falsifier.input_file import opened

    digest = sha256()
    try:
        with opened(path) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                if len(block) == _BLOCK and time.monotonic() > until:
                    return None
    except (InputError, OSError):
        return None
    return digest.hexdigest()


def parser() -> Parser:
    """The command line of `verify`."""
    parser = Parser("verify", "Search for inputs that satisfy a VNN-LIB query (that is, violate the property).")
    add = parser.add_argument
    add("query", metavar="QUERY", help="a VNN-LIB file, 1.0 or 2.0, plain or gzip")
    parser.add_networks()
    add("--timeout", metavar="SECONDS", help=f"counted from the start of the process (default {DEFAULT_TIMEOUT:g})")
    add(
        "--serialise-assignments",
        "--assignments",
        dest="assignments",
        metavar="DIR",
        help="write the witness there too, one serialised tensor <variable>.pb for each variable",
    )
    add("--since", type=positive_int, metavar="PID", help="count the time limit from the start of this process instead")
    add("--json", metavar="FILE", help="write the whole result as JSON; - puts it on stdout in place of the answer")
    add(
        "--results", metavar="FILE", help="write the competition's results file: the verdict, and below sat the witness"
    )
    parser.add_rng_seed()
    add(
        "--max-evaluations",
        type=positive_int,
        metavar="N",
        help="end after this many evaluated points; the result is reproducible then",
    )
    add(
        "--workers",
        type=workers,
        metavar="{N,auto}",
        help="search what the first pass leaves open in N processes, this one included, if the network is one that "
        "keeps a single core busy; auto: one for each free core (default auto; with --max-evaluations 1, which is off)",
    )
    parser.add_device()
    parser.add_refinement()
    add_then(parser)
    add(
        "--require",
        choices=("exact", "correct"),
        default="correct",
        help="exact: leave out witnesses that hold only under the published rule of rounded bounds (default correct)",
    )
    add(
        "--portfolio",
        default="standard",
        metavar="NAME",
        help="the stages to search with: standard, fuzzing, paper, restarts, or MODULE:FUNCTION of your own "
        "(default standard); settings may follow paper and fuzzing, as in paper,scaling=isotropic,step=0.05 "
        "(docs/batch-fuzzing.md)",
    )
    add(
        "--budgets",
        metavar="FILE.npy",
        help="how far each input may move from the centre of its box: a numpy array, one number for each input",
    )
    return parser

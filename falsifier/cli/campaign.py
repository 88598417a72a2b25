"""`falsifier campaign`: many instances in one run; answers go into a folder, progress to stderr."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.cli.arguments import Parser, positive_int
from falsifier.cli.process import Guard
from falsifier.cli.progress import Reporter
from falsifier.cli.samples import OF_SAMPLES, add_samples, samples_of
from falsifier.cli.then import adapter_of, add_then, searching
from falsifier.cli.workers import add_workers, executor_of
from falsifier.counted import counted
from falsifier.errors import InputError
from falsifier.instance import parse_seconds

if TYPE_CHECKING:
    from falsifier.campaign.driver import Driver
    from falsifier.campaign.executors import Executor
    from falsifier.campaign.hand_off import HandOff
    from falsifier.campaign.plan import Job
    from falsifier.campaign.record import Record
    from falsifier.campaign.session import Session
    from falsifier.campaign.sqlite import SqliteRecord
    from falsifier.campaign.stack import Settings
    from falsifier.handoff.adapter import Adapter
    from falsifier.network import Network
    from falsifier.verdict import Verdict


def run(words: list[str], started: float) -> int:
    """Run the command."""
    return Command(parser().parse_args(words), started).run()


class Command:
    """One run: the record, once there is one, and what is decided so far."""

    def __init__(self, options: Namespace, started: float) -> None:
        self._options = options
        self._reporter = Reporter(started)
        self._record: SqliteRecord | None = None
        self._campaign: Driver | None = None
        self._executor: Executor | None = None
        self._hand_off: HandOff | None = None

    def run(self) -> int:
        """Plan, search, and tell what came out."""
        # before anything is imported that has threads: they would take the signals
        with Guard(float("inf"), float("inf"), self._cut_short) as guard:
            jobs, loaded = _jobs(self._options)
            campaign, record = self._prepared(_share(jobs, self._options.shard), loaded)
            try:
                verdicts = campaign.run()
                if self._hand_off is not None:
                    verdicts = self._hand_off.finish(verdicts)
            except BaseException:
                record.abandon()
                raise
            with guard.answering():
                from falsifier.campaign.record import tally

                try:
                    record.close()
                finally:
                    self._reporter.say(
                        f"{counted(campaign.total, 'instance')}: {tally(verdicts)}; see {self._options.out}"
                    )
        return 2 if all(job.fault for job in jobs) else 0  # a table of which nothing can be used is bad input

    def _prepared(self, jobs: list[Job], loaded: dict[Path, Network]) -> tuple[Driver, SqliteRecord]:
        from falsifier.arguments import as_budgets
        from falsifier.campaign.driver import Driver
        from falsifier.campaign.sqlite import SqliteRecord
        from falsifier.campaign.stack import Settings

        given = self._options
        budgets = as_budgets(given.budgets) if given.dataset is None else None  # of samples they make the boxes
        settings = Settings(
            given.device, given.require, given.portfolio, given.rng_seed, given.max_evaluations, budgets
        )
        self._executor = executor_of(given, loaded)
        adapter = self._verifier()
        try:
            self._executor.prepare(settings)  # before a folder is made
            record = self._record = SqliteRecord(
                Path(given.out),
                jobs,
                _session(given, settings),
                resume=given.resume,
                retry=_verdicts(given.retry),
                warn=self._reporter.say,
            )
        except BaseException:
            self._executor.abandon()
            raise
        for note in record.notes:
            self._reporter.say(note)
        written: Record = record
        tell, warn = self._reporter.tell, self._reporter.say
        if adapter is not None:
            from falsifier.campaign.hand_off import HandOff

            who = adapter
            self._hand_off = HandOff(who, lambda limit: searching(given, who, limit), record, settings, warn, tell)
            written, tell = self._hand_off, self._hand_off.told
        self._campaign = Driver(written.waiting, written, settings, self._executor, tell, warn)
        return self._campaign, record

    def _verifier(self) -> Adapter | None:
        """Who gets what stays open; None for nobody, or somebody who is not there."""
        adapter = adapter_of(self._options)
        if adapter is None:
            return None
        availability = adapter.availability()
        if not availability.available:
            self._reporter.say(f"{adapter.name}: is not available here: {availability.remedy}; the search has its time")
            return None
        return adapter

    def _cut_short(self, signal: int | None) -> int:
        """In place of the main thread, which may be inside a library: what was decided stands in the folder."""
        if self._executor is not None:
            self._executor.abandon()
        if self._hand_off is not None:
            self._hand_off.stop()
        if self._record is not None and self._campaign is not None:
            self._record.lock.acquire(timeout=1.0)
            held = 0 if self._hand_off is None else len(self._hand_off.held)
            done, total = self._campaign.verdicts.total() - held, self._campaign.total
            self._reporter.say(
                f"interrupted: {done} of {counted(total, 'instance')} are decided, see {self._options.out}"
            )
        return 128 + (signal or 0)


def _jobs(options: Namespace) -> tuple[list[Job], dict[Path, Network]]:
    """The plan, and networks that it took to make it. Raises InputError where there is none."""
    from falsifier.campaign.plan import arranged, read_instances

    timeout = parse_seconds(options.timeout) if options.timeout is not None else None
    category = options.category
    if category is not None and (Path(category).name != category or category in ("", ".", "..")):
        raise InputError(f"--category {category!r}: a name without slashes is expected, folders are named after it")
    if options.retry and not options.resume:
        raise InputError("--retry belongs to --resume, which is not given")
    if options.dataset is not None:
        return samples_of(options, timeout)
    given = [name for name in OF_SAMPLES if getattr(options, name) is not None]
    if given:
        raise InputError(f"--{given[0].replace('_', '-')} belongs to --dataset, which is not given")
    jobs = [job for path in options.instances for job in read_instances(Path(path), timeout=timeout, category=category)]
    if not jobs:
        raise InputError(f"{', '.join(options.instances)}: no instances in it; rows are onnx,vnnlib,timeout")
    return arranged(jobs), {}


def _share(jobs: list[Job], part: tuple[int, int] | None) -> list[Job]:
    """The jobs of this run."""
    if part is None:
        return jobs
    from falsifier.campaign.shard import shard

    return shard(jobs, *part)


def _verdicts(words: list[str]) -> frozenset[Verdict]:
    from falsifier.verdict import Verdict

    return frozenset(map(Verdict, words))


def _session(options: Namespace, settings: Settings) -> Session:
    """What the record notes of this run."""
    from dataclasses import asdict, replace
    from hashlib import sha256

    from falsifier.campaign.session import Session

    words = {name: getattr(options, name) for name in ("category", "then", "then_after", *OF_SAMPLES)}
    words["instances"] = [str(Path(name).absolute()) for name in options.instances]
    for name in ("dataset", "budgets", "config"):
        given = getattr(options, name)
        words[name] = None if given is None else str(Path(given).absolute())
    asked = {name: value for name, value in words.items() if value is not None}
    radius = None if settings.budgets is None else settings.budgets.radius
    budgets = None if radius is None else sha256(radius.tobytes()).hexdigest()
    facts = asdict(replace(settings, budgets=None)) | {"timeout": options.timeout, "budgets": budgets}
    part = "" if options.shard is None else "{}/{}".format(*options.shard)
    return Session(facts, asked, part)


def parser() -> Parser:
    """The command line of `campaign`."""
    parser = Parser(
        "campaign",
        "Search many instances in one run. Those of one network share every batch: while w of them are open, the clock "
        "of each runs at 1/w of the wall's, so that its time limit means what it would mean alone, and all together "
        "take no longer than one after the other.",
    )
    add = parser.add_argument
    add(
        "instances",
        nargs="+",
        metavar="INSTANCES.csv",
        help="rows onnx,vnnlib,timeout as in the competition, paths relative to it; with --dataset one MODEL.onnx",
    )
    add(
        "--out", default="campaign", metavar="DIR", help="a new folder for results.csv and witnesses (default campaign)"
    )
    add(
        "--resume",
        action="store_true",
        help="go on with the record in --out, or begin where there is none: run what has no answer, what was an error, "
        "and what has other files than before",
    )
    add(
        "--retry",
        action="append",
        choices=("timeout", "unknown"),
        default=[],
        help="with --resume: run these again too",
    )
    add(
        "--shard",
        type=_part,
        metavar="I/N",
        help="run the I-th of N parts of the plan, dealt by network; `falsifier merge` puts their records together",
    )
    add("--timeout", metavar="SECONDS", help="the most that an instance gets, whatever its row says (rows without: 60)")
    add("--category", metavar="NAME", help="first column of results.csv (default: the folder of INSTANCES.csv)")
    parser.add_device()
    parser.add_rng_seed()
    add(
        "--max-evaluations",
        type=positive_int,
        metavar="N",
        help="end each instance after this many evaluated points of its own",
    )
    add(
        "--portfolio",
        default="standard",
        metavar="NAME",
        help="which stages search, as in verify: standard (default), fuzzing, paper, restarts, or MODULE:FUNCTION",
    )
    add("--require", choices=("exact", "correct"), default="correct", help="as in verify (default correct)")
    add(
        "--budgets",
        metavar="FILE.npy",
        help="how far each input may move from the centre of its box, one number for each; with --dataset from its "
        "sample, [n] or [N, n], and with --epsilon the lesser counts",
    )
    add_then(parser)
    add_workers(parser)
    add_samples(parser)
    return parser


def _part(text: str) -> tuple[int, int]:
    """`i/n`: the i-th of n parts."""
    first, slash, second = text.partition("/")
    if slash and first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second):
        return int(first), int(second)
    raise ArgumentTypeError(f"{text!r} is not i/n, the i-th of n parts, such as 1/4")

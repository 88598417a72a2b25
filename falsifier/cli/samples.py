"""The options of `campaign` that ask about samples of a data set in place of queries, and the plan that they make."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from falsifier.cli.arguments import Parser
from falsifier.errors import InputError

if TYPE_CHECKING:
    from falsifier.campaign.plan import Job
    from falsifier.network import Network

OF_SAMPLES = ("epsilon", "label_property", "margin", "range", "clip", "as_vnnlib")


def add_samples(parser: Parser) -> None:
    """Add the options."""
    add = parser.add_argument_group("samples in place of queries: an instance for each").add_argument
    add("--dataset", metavar="FILE.npz", help="arrays x [N, ...] and, unless the model's own predictions count, y [N]")
    add("--epsilon", type=_radius, metavar="R", help="how far each input may move from its sample")
    add(
        "--label-property",
        choices=("top1", "margin", "range"),
        help="what is violated where top1 (the default): another class reaches the label's score; margin: it comes "
        "nearer than --margin; range: an output leaves --range",
    )
    add("--margin", type=float, metavar="M", help="by how much the label's score exceeds all others")
    add("--range", type=float, nargs=2, metavar=("A", "B"), help="where every output lies")
    add("--clip", type=float, nargs=2, metavar=("A", "B"), help="the range of valid inputs")
    add("--as-vnnlib", metavar="DIR", help="write the questions as VNN-LIB files too, with an instances.csv")


def samples_of(options: Namespace, timeout: float | None) -> tuple[list[Job], dict[Path, Network]]:
    """The plan where the instances are samples, and the network that it took to make it. Raises InputError."""
    from falsifier.campaign.dataset import (
        DataSet,
        Property,
        fitted,
        jobs_of,
        read_samples,
        setting_of,
    )
    from falsifier.campaign.plan import arranged
    from falsifier.campaign.query_files import write_queries
    from falsifier.network import load

    if len(options.instances) != 1:
        raise InputError(f"--dataset goes with one model, {len(options.instances)} files are given")
    kind = Property(options.label_property or "top1")
    for name, needs in (("margin", Property.MARGIN), ("range", Property.RANGE)):
        if (getattr(options, name) is not None) != (kind is needs):
            raise InputError(f"--label-property {needs.value} and --{name} go together")
    for name in ("clip", "range"):
        pair = getattr(options, name)
        if pair is not None and not pair[0] < pair[1]:
            raise InputError(f"--{name} {pair[0]:g} {pair[1]:g}: the lower end comes first")
    setting = setting_of(vars(options))
    x, y, shape = read_samples(Path(options.dataset))
    model = Path(options.instances[0])
    network = fitted(load(model), shape)
    data = DataSet(x, y, setting, network, options.dataset)
    jobs = jobs_of(data, options.instances[0], timeout, options.category)
    if options.as_vnnlib is not None:
        write_queries(jobs, Path(options.as_vnnlib), model)
    return arranged(jobs), {model: network}


def _radius(text: str) -> float:
    """A distance."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a distance")
    return value

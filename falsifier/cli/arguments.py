"""Command lines as typed values; what is wrong with one is said in one line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from falsifier.errors import InputError


class Parser(argparse.ArgumentParser):
    """argparse with errors that reach the user like every other bad input."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(
            prog=f"falsifier {command}", description=description, allow_abbrev=False, formatter_class=_formatter
        )

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} ({self.prog} --help says more)")

    def add_networks(self) -> None:
        """The option by which every command takes networks."""
        self.add_argument(
            "--network",
            action="append",
            default=[],
            metavar="[NAME=]FILE",
            help="an ONNX file (plain or gzip) and the name the query declares it under; a lone one needs no name",
        )

    def add_device(self) -> None:
        """The option that chooses where engines run."""
        self.add_argument(
            "--device",
            default="auto",
            metavar="{auto,cpu,cuda,cuda:i}",
            help="cpu: onnxruntime on the CPU; cuda, cuda:i: torch on that GPU; auto (default): the CPU first, then "
            "a GPU, if there is one, for what that does not decide",
        )

    def add_rng_seed(self) -> None:
        """The option that every random draw of a search depends on."""
        self.add_argument(
            "--rng-seed",
            type=non_negative_int,
            default=0,
            metavar="N",
            help="the state that all random draws start from (default 0)",
        )

    def add_refinement(self) -> None:
        """The options of what is wanted beyond a first witness."""
        add = self.add_argument_group("after a first witness (docs/witnesses.md)").add_argument
        add("--all-witnesses", type=positive_int, metavar="N", help="go on to up to N witnesses, one for each disjunct")
        add(
            "--distinct",
            choices=("disjunct", "distance"),
            help="distance: any two of --all-witnesses lie --apart from each other instead (default disjunct)",
        )
        add(
            "--apart",
            type=positive,
            metavar="D",
            help="how far, in widths of the box in some input (default 0.1); goes with --distinct distance",
        )
        add("--deepen", action="store_true", help="go on to the witness with the greatest margin")
        add(
            "--nearest",
            metavar="{centre,POINT.npy,WITNESS}",
            help="go on to the witness nearest to the centre of the box, to a point, or to the inputs of a witness",
        )
        add("--norm", choices=("linf", "l2"), help="of that distance, in the inputs' own units (default linf)")
        add("--witnesses", metavar="DIR", help="write further witnesses there, one file each, and an index.json")
        add(
            "--from",
            dest="start",
            metavar="WITNESS",
            help="begin with this witness instead of a search: a results file, a bare witness, or a folder of tensors",
        )


def _formatter(prog: str) -> argparse.HelpFormatter:
    """With a width, or each new argument would import shutil, and with it all compression libraries, to ask for it."""
    return argparse.HelpFormatter(prog, width=100)


def positive_int(text: str) -> int:
    """An argument that counts something."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def workers(text: str) -> int | str:
    """An argument that is a number of processes, or `auto`."""
    return text if text == "auto" else positive_int(text)


def non_negative_int(text: str) -> int:
    """An argument like an rng seed. Surrounding white space is no fault."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative number")
    return value


def positive(text: str) -> float:
    """An argument that is a positive, finite number."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def seconds(text: str) -> float:
    """An argument that is a length of time in seconds, 0 included."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """An argument NAME=D,D,...: the name of an input and its shape."""
    name, equals, dimensions = text.rpartition("=")
    parts = dimensions.split(",") if dimensions else []
    if not (name and equals) or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=D,D,... with positive numbers")
    return name, tuple(int(part) for part in parts)

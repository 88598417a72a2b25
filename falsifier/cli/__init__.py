"""The command `falsifier`. One file per command, imported when it is called.

stdout carries answers alone, in the words of the VNN-LIB standard; everything else goes to stderr.
Exit status: 0 for every completed run whatever the verdict, 2 for bad input, 1 for an internal error.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from falsifier import __version__

COMMANDS = (
    "verify",
    "campaign",
    "export",
    "merge",
    "report",
    "fuzz",
    "check",
    "explain",
    "convert",
    "quantize",
    "replay",
    "doctor",
    "supports",
    "adapters",
    "prepass",
    "serve",
)
_USAGE = f"""\
usage: falsifier {{{",".join(COMMANDS)}}} ...   (falsifier COMMAND --help says more)
       falsifier --name | --version

Finds inputs of neural networks that satisfy a VNN-LIB query, that is, counterexamples to a property:
       falsifier verify property.vnnlib --network model.onnx --timeout 20

  verify    search for inputs that satisfy a VNN-LIB query
  campaign  search many instances together: instances.csv, or a data set of samples
  export    write results.csv and witnesses from the record of a campaign
  merge     make one record of those of several campaigns
  report    show what a campaign found as one HTML page
  fuzz      look for inputs that make a network fail, without a query
  check     judge a witness, of this tool or of any other
  explain   say in plain words what a query asks for
  convert   write a query in the other version of VNN-LIB
  quantize  write the half-precision or int8 copy of a model
  replay    run the hits of fuzz again
  doctor    versions, devices, and which engine serves a model
  supports  say what this solver supports, for the standard's tools
  adapters  verifiers that --then can hand over to, and what is missing
  prepass   behave as a VNN-COMP tool folder: falsify first, then run another tool
  serve     prepare one instance and wait for its run; the competition's scripts use it
"""
_ENVIRONMENT = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}  # a disk that takes no more, wherever it was written to
# packages that come with an extra, which may have been left out
_EXTRAS = {"onnxruntime": "cpu", "torch": "torch", "ray": "ray"} | dict.fromkeys(
    ("jinja2", "matplotlib", "PIL", "scipy"), "report"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Without `arguments`: those of this process, counted from its start."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    match words[:1]:
        case ["--name"]:
            print("falsifier")
        case ["--version"]:
            print(__version__)
        case ["-h" | "--help"]:
            print(_USAGE, end="")
        case [command] if command in COMMANDS:
            from falsifier.cli.process import age

            if arguments is not None:
                return _run(command, words[1:], time.monotonic())
            return _run(command, words[1:], time.monotonic() - age())
        case [unknown]:
            print(f"falsifier: no command {unknown!r}: use one of {', '.join(COMMANDS)}", file=sys.stderr)
            return 2
        case _:
            print(_USAGE, end="", file=sys.stderr)
            return 2
    return 0


def entry() -> NoReturn:
    """Run the command of this process, and end it."""
    from falsifier.cli.streams import mend

    mend()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reports its use to its makers unless told not to
    status = reported(_flushed)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # whoever read it has gone
            status = status or 1
    # The answer is out. Taking the interpreter and the libraries down in order costs time and can crash, and a status
    # other than that of the answer would lose it.
    os._exit(status)


def _flushed() -> int:
    """`main`, with all of its answer out."""
    status = main()
    sys.stdout.flush()
    return status


def _run(command: str, words: list[str], started: float) -> int:
    """Import and run one command."""
    from importlib import import_module

    from falsifier.machine import limit_libraries

    limit_libraries()
    return reported(lambda: import_module(f"falsifier.cli.{command}").run(words, started))


def reported(action: Callable[[], int]) -> int:
    """The exit status of an action; bad input becomes one line on stderr."""
    from falsifier.cli.streams import STDOUT
    from falsifier.errors import FalsifierError, InputError

    try:
        return action()
    except FalsifierError as error:
        line = str(error).replace("\r", "\\r").replace("\n", "\\n")  # those in names of files
        print(f"falsifier: {line}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        print(
            f"falsifier: {error.name} is not installed: pip install 'vnn-falsifier[{_EXTRAS[error.name]}]'",
            file=sys.stderr,
        )
        return 1
    except MemoryError as error:
        what = " ".join(str(error).split()) or "an allocation failed"
        print(f"falsifier: out of memory ({what}): give the process more, or a smaller instance", file=sys.stderr)
        return 1
    except BrokenPipeError:
        _drop_stdout()  # whoever read it has gone
        return 1
    except OSError as error:
        if not _somewhere():
            print("falsifier: the folder that it was started in was removed: start it in another", file=sys.stderr)
            return 2
        if error.errno not in _ENVIRONMENT:
            raise
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        print(f"falsifier: {where}{error.strerror}: free some space, or name another place", file=sys.stderr)
        if error.filename == STDOUT:
            _drop_stdout()  # that is said once
        return 2
    except KeyboardInterrupt:
        print("falsifier: interrupted", file=sys.stderr)
        return 130


def _drop_stdout() -> None:
    """Send what is still to be written to stdout nowhere: it would fail again, and Python complains when it closes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _somewhere() -> bool:
    """Whether the working folder is there: relative names mean nothing without."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True

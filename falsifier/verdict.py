"""What a run answers, and why it stopped. The value of each member is the word or the sentence shown to the user."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """The answer for one instance, in the words of the competition's results file."""

    SAT = "sat"
    UNSAT = "unsat"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    ERROR = "error"


WORDS = {verdict.value: verdict for verdict in Verdict} | {"timed-out": Verdict.TIMEOUT}
"""What tools answer with: the words of the competition, and that of the VNN-LIB standard where it has another."""


class StopReason(Enum):
    """Why a run stopped."""

    CONFIRMED = "a witness was confirmed on the original network"
    EMPTY_INPUT_SET = "the input set is empty: no input can satisfy the query"
    SINGLE_POINT = "every input is fixed and the only point does not satisfy the query"
    DEADLINE = "the time limit was reached"
    SHARE = "the search used up its share of the time limit"
    EVALUATIONS = "the cap on evaluations was reached"
    EXHAUSTED = "every stage of the portfolio ended without a witness"
    UNSUPPORTED = "the query or the network asks for something that is not supported"
    FAILED = "an engine failed, and no other could take its place"
    SETTLED = "every target was ruled out"
    VERIFIER = "a verifier claims that no input satisfies the query"
    INTERRUPTED = "the run was interrupted"

"""What programs print as their answer, as outcomes: a word, and below `sat` a witness in the query's format."""

from __future__ import annotations

from pathlib import Path

from falsifier.errors import InputError
from falsifier.handoff.adapter import Outcome
from falsifier.handoff.handoff import Handoff
from falsifier.query import read
from falsifier.verdict import WORDS, Verdict
from falsifier.witness.text import read_witness

_ITS_OWN = "its own"  # what an `unsat` of a program rests on


def outcome_of(text: str, handoff: Handoff, engine: str, ended: str) -> Outcome:
    """The outcome of an answer: `text` begins with the word. ended: how the program ended, where that was no answer."""
    first, _, rest = text.lstrip().partition("\n")
    word = "".join(first.split()).lower()
    verdict = WORDS.get(word)
    if verdict is None:
        said = f"answered {first.strip()[:60]!r}, which is no verdict" if word else "gave no answer"
        return Outcome(Verdict.UNKNOWN, f"{said}{'; it ' + ended if ended else ''}", engine)
    if verdict is Verdict.ERROR:
        return Outcome(Verdict.UNKNOWN, f"answered error{'; it ' + ended if ended else ''}", engine)
    if verdict is Verdict.UNSAT and ended:  # a claim that nothing checks has to come from a program that ended well
        return Outcome(Verdict.UNKNOWN, f"answered unsat and {ended}", engine)
    if verdict is not Verdict.SAT:
        return Outcome(verdict, f"answered {word}", engine, _ITS_OWN)
    try:
        query = read(Path(handoff.instance.query))
        inputs = read_witness(query, rest, "its witness").inputs
    except InputError as error:
        return Outcome(Verdict.UNKNOWN, f"claims sat, without a witness that can be read: {error}", engine)
    return Outcome(Verdict.SAT, "found the witness", engine, inputs=inputs)

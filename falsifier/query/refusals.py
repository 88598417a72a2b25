"""What the reference parser of VNN-LIB 2.0 refuses, said in one line about the word that is at fault."""

from __future__ import annotations

import json
import re

from falsifier.errors import InputError
from falsifier.query.source import shown

_SYNTAX = re.compile(r"syntax error at line (\d+), column (\d+): '(.*)'", re.DOTALL)
_CONSTANT = re.compile(r"Expected (type .*), but found a (\w+)Constant")
_BEFORE = re.compile(r"Expected a (\w+)Constant type to match constant '(.*)', but variable '(.*)' has type '(.*)'")
_DECLARED = re.compile(r"declare-(?:input|hidden|output)\s+([^\s()\[\]]+)")
_FORM = re.compile(r"\(\s*(declare-[\w-]*)")
_FORMS = ("declare-network", "declare-input", "declare-hidden", "declare-output")
_SIGNS = {
    "=": "==",
    "===": "==",
    "=<": "<=",
    "=>": ">=, or an or in place of an implication",
    "<>": "!=",
    "><": "!=",
    "!==": "!=",
    "/=": "!=",
    "<==": "<=",
    ">==": ">=",
}
_WORDS = {
    "not": "2.0 has no not: turn the comparison round",
    "/": "2.0 has no division: multiply",
    "-": "a minus stands directly before a number, (- X) is a variable's negative",
    ",": "commas stand in indices alone",
    "!": "write !=",
}
_FORMULAS = (
    "a formula is (and ..), (or ..), or a comparison (<= a b), of numbers, elements X[i,j], and (+ ..), (- ..), (* ..)"
)
_NETWORK = "a network is (declare-network NAME, its inputs, its hidden variables, its outputs, one output at least)"
_VARIABLE = (
    "a variable is (declare-input NAME TYPE [D,..]), with a tensor's name in quotes behind it where it is hidden"
)
_MOST = 6  # names that a message lists


def refusal(message: str, text: str, origin: str) -> InputError:
    """The error of what the parser said of a text."""
    if found := _SYNTAX.search(message):
        return _syntax(int(found[1]), int(found[2]), found[3], text, origin)
    try:
        first = json.loads(message)["errors"][0]
        what, symbol, hint = first["message"].rstrip("."), first["offendingSymbol"], " ".join(first["hint"].split())
        line = first["line"]
    except (ValueError, KeyError, IndexError, TypeError):
        return InputError(f"{origin}: the 2.0 parser refuses the text: {' '.join(message.split())}")
    if found := _BEFORE.search(hint):  # it names the variable, the number before it is at fault
        symbol, hint = found[2], _number(f"type '{found[4]}' (from '{found[3]}')", found[1])
    elif found := _CONSTANT.search(hint):
        hint = _number(found[1].strip(), found[2])
    elif "dimension" in what:
        what = "a dimension that is none in the shape of"
    elif what.startswith("Undeclared"):
        names = list(dict.fromkeys(_DECLARED.findall(text)))
        hint = f"declared are {', '.join(map(shown, names[:_MOST]))}{', ..' * (len(names) > _MOST)}"
    what = what.replace(symbol, shown(symbol)) if symbol else what
    told = what if f"'{shown(symbol)}'" in what else f"{what} '{shown(symbol)}'"
    return InputError(f"{origin}:{line}: {told}; {hint}")


def _number(whose: str, given: str) -> str:
    if "'Bool'" in whose:
        return f"{whose} is compared with no number: declare the variable real, its values are 0.0 and 1.0 then"
    return f"{whose} wants a number like {'1.0' if given.endswith('Int') else '1'}"


def _syntax(line: int, column: int, token: str, text: str, origin: str) -> InputError:
    """column: from 0."""
    lines = text.split("\n")
    here = lines[line - 1] if line <= len(lines) else ""
    token, remedy = " ".join(token.split()), ""
    in_header = "declare-" in here or not any("(assert" in earlier for earlier in lines[:line])
    if unknown := next((found for found in _FORM.finditer(here) if found[1] not in _FORMS), None):
        column, token, remedy = unknown.start(1), unknown[1], f"the forms are {', '.join(_FORMS)} and assert"
    elif token.strip("=<>!/") == "" and token and (sign := _sign(here, column)) is not None:
        column, token, remedy = sign[0], sign[1], f"write {_SIGNS[sign[1]]}"
    elif token == "_" and here[column : column + 2] == "__":  # quoted text was blanked
        token, remedy = '"', "names are written without quotes"
    said = remedy or _remedy(token, in_header, here)
    return InputError(f"{origin}:{line}:{column + 1}: VNN-LIB 2.0 does not allow '{shown(token)}' here; {said}")


def _sign(here: str, column: int) -> tuple[int, str] | None:
    """The whole sign around a column, where there is a remedy for it."""
    for found in re.finditer(r"[=<>!/]+", here):
        if found.start() <= column < found.end():
            return (found.start(), found[0]) if found[0] in _SIGNS else None
    return None


def _remedy(token: str, in_header: bool, here: str) -> str:
    if token == "":
        return "the text ends too early: is a bracket or an assert missing?"
    if in_header:
        return _VARIABLE if re.search(r"declare-(input|hidden|output)", here) and token[0] != "(" else _NETWORK
    if re.match(r"[eE]\d*$", token):
        return "2.0 has no exponents: write the decimal out"
    if token in (".", "+"):
        return "write numbers as digits, or digits.digits, with at most a minus before"
    return _WORDS.get(token, _FORMULAS)

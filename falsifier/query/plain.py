"""Numbers written out as VNN-LIB 2.0 wants them: digits, a point, digits, with at most a minus before."""

from __future__ import annotations

import re
import sys

from falsifier.errors import InputError

PLAIN = re.compile(rb"-?[0-9]+\.[0-9]+")
"""What 2.0 reads as a constant of a float or real variable."""

_NUMBER = re.compile(r"([-+]?)([0-9]*)\.?([0-9]*)(?:[eE]([-+]?[0-9]+))?")


def plain(text: str) -> str:
    """A constant as 1.0 allows it (`+1`, `.5`, `1.`, `2e-3`) written out, equal digit by digit.

    Raises InputError for one that float64 holds only as infinity, as 0, or with fewer digits: readers of 2.0 refuse it.
    """
    found = _NUMBER.fullmatch(text)
    if not found:
        raise InputError(f"{text!r} is not a decimal number")
    sign, whole, places, exponent = found.groups(default="")
    digits = whole + places
    value, nothing = abs(float(text)), not digits.strip("0")
    if not nothing and not sys.float_info.min <= value <= sys.float_info.max:
        raise InputError(f"the constant {text} is beyond the numbers that readers of VNN-LIB 2.0 hold")
    if exponent and not nothing:
        point = len(whole) + int(exponent)
        digits = "0" * -point + digits + "0" * (point - len(digits))
        whole, places = digits[: max(point, 0)], digits[max(point, 0) :]
        whole = whole.lstrip("0")
    return f"{sign.strip('+')}{whole or '0'}.{places or '0'}"

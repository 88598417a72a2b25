"""Numbers and text as the page shows them."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text without what is no sign (control characters, marks that turn the direction): a visible sign instead."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def number(value: float | None, digits: int = 3) -> str:
    """A number to so many significant digits, without an exponent where that reads well."""
    if value is None:
        return "\N{EN DASH}"
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e7:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{_signed(mantissa)}e{_signed(str(int(exponent)))}"
    shown = f"{value:,.{max(0, digits - 1 - _magnitude(value))}f}"
    return _signed(shown)


def short(value: float) -> str:
    """A number to three digits without zeros at its end."""
    shown = number(value)
    return shown.rstrip("0").rstrip(".") if "." in shown and "e" not in shown else shown


def count(value: float | None) -> str:
    """A count with separators."""
    return "\N{EN DASH}" if value is None else f"{value:,.0f}"


def compact(value: float | None) -> str:
    """A count, to three digits with a letter where it is large: 12.3 M."""
    if value is None or value < 1e5:
        return count(value)
    return scaled(value)


def scaled(value: float) -> str:
    """A number from 1000 on as 1 k, 2.5 M."""
    power, letter = next((p, x) for p, x in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= p)
    return f"{short(value / power)} {letter}"


def duration(value: float | None) -> str:
    """Seconds in the units that people use."""
    if value is None or value < 120:
        return number(value) + ("" if value is None else " s")
    whole = round(value)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    shown = [f"{amount} {unit}" for amount, unit in parts if amount]
    return " ".join(shown[:2])


def _magnitude(value: float) -> int:
    """Of 0.02: -2."""
    return int(f"{value:e}".partition("e")[2])


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")

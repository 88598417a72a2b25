"""Records: classes of plain fields, made in a tenth of the time that `dataclasses` takes for a frozen one.

A process that answers at once defines some seventy such classes first: with `dataclass` that is a sixth of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A class decorator: `__init__`, `__repr__`, equality and hash over the annotated fields of a class.

    Fields may have defaults, which all records share, so only what does not change. Type checkers treat records as
    frozen; nothing enforces it when the program runs. A class may define any of the methods itself. The functions of
    `dataclasses` (`replace`, `fields`, `asdict`) take records.
    """
    names = tuple(cls.__annotations__)
    defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__ and name not in _slots(cls)}
    if "__init__" not in cls.__dict__:
        head = ", ".join(f"{name}=defaults[{name!r}]" if name in defaults else name for name in names)
        body = "; ".join(f"self.{name} = {name}" for name in names) or "pass"
        space: dict[str, Any] = {"defaults": defaults}
        exec(f"def __init__(self, {head}): {body}", space)
        setattr(cls, "__init__", space["__init__"])  # noqa: B010 - mypy refuses the plain assignment
    setattr(cls, "__match_args__", names)  # noqa: B010
    setattr(cls, "_values", _getter(names))  # noqa: B010
    setattr(cls, "__dataclass_fields__", _Fields())  # noqa: B010
    for method in (_repr, _eq, _hash):
        name = f"__{method.__name__[1:]}__"
        if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
            setattr(cls, name, method)
    return cls


class _Fields:
    """The fields as the module `dataclasses` knows them, so that its functions take records; made when one asks."""

    def __get__(self, record: object, cls: Any) -> dict[str, Any]:
        from dataclasses import make_dataclass

        made: Any = make_dataclass(cls.__name__, cls.__match_args__)
        cls.__dataclass_fields__ = made.__dataclass_fields__
        found: dict[str, Any] = made.__dataclass_fields__
        return found


def values(record: Any) -> tuple[Any, ...]:
    """The fields of a record in order."""
    found: tuple[Any, ...] = type(record)._values(record)
    return found


def replaced(record: T, **changes: Any) -> T:
    """A copy with some fields changed. Raises TypeError for a name that is no field."""
    fields: dict[str, Any] = dict(zip(record.__match_args__, values(record), strict=True))  # type: ignore[attr-defined]
    return type(record)(**(fields | changes))


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _slots(cls: type) -> tuple[str, ...]:
    return tuple(cls.__dict__.get("__slots__", ()))


def _repr(self: Any) -> str:
    fields = zip(self.__match_args__, values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in fields)})"


def _eq(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(values(self))

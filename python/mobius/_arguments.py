"""Arguments as the library takes them. One of another kind is told by its name, what was found and what was expected: TypeError, or ValueError for a
value that is out of range.

    options = {"opset": optional(integer, "opset", opset), "ignore_extra": names("ignore_extra", ignore_extra)}
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from mobius._errors import InvalidArgumentError

T = TypeVar("T")
_LARGEST = 2**63 - 1


def found(value: Any) -> str:
    """A value in a message: itself where that is short, else what kind of thing it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        text = repr(value)
        return text if len(text) <= 80 else text[:76] + " ..."
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def refuse(name: str, value: Any, expected: str) -> TypeError:
    return TypeError(f"{name} is {found(value)}, expected {expected}")


def optional(check: Callable[[str, Any], T], name: str, value: Any) -> T | None:
    return None if value is None else check(name, value)


def flag(name: str, value: Any) -> bool:
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # numpy's too
        return bool(value)
    raise refuse(name, value, "True or False")


def integer(name: str, value: Any, least: int = -_LARGEST, expected: str = "a whole number") -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise refuse(name, value, expected) from None
    if not least <= number <= _LARGEST:
        raise InvalidArgumentError(f"{name} is {found(number)}, expected {expected}" + (f", {least} or more" if number < least and least > -_LARGEST else ""))
    return number


def text(name: str, value: Any, expected: str = "a str") -> str:
    if not isinstance(value, str):
        raise refuse(name, value, expected)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{name} is {value!r}, which is no text: it has half of a surrogate pair") from None
    return str(value)


def choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    shown = [c for c in choices if c]
    expected = " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    if not isinstance(value, str):
        raise refuse(name, value, expected)
    if value not in choices:
        raise InvalidArgumentError(f"{name} is {found(value)}, expected {expected}")
    return value


def names(name: str, value: Any) -> list[str]:
    if isinstance(value, str):
        raise InvalidArgumentError(f"{name} is {found(value)}, expected a list of names")
    try:
        items = list(value)
    except TypeError:
        raise refuse(name, value, "a list of names") from None
    return [text(f"{name}[{i}]", item) for i, item in enumerate(items)]


def path(name: str, value: Any) -> bytes:
    """As the operating system has it: a path may hold bytes that are no text."""
    try:
        encoded = os.fsencode(value)
    except TypeError:
        raise refuse(name, value, "a path") from None
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{name} is {value!r}, which the file system can't hold") from None
    if b"\0" in encoded:
        raise InvalidArgumentError(f"{name} is {found(value)}, which no path can be: it has a NUL character")
    return encoded


def task_name(task: Any) -> str:
    """Of a task, which may be given by its name; "" for none."""
    if task is None:
        return ""
    return text("task", task if isinstance(task, str) else getattr(task, "name", task), "the name of a task, or a ModelTask")


def mapping(name: str, value: Any, expected: str) -> Mapping[str, Any]:
    """With texts as keys."""
    if not isinstance(value, Mapping):
        raise refuse(name, value, expected)
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{name} has the key {found(key)}, expected {expected}")
    return value


def one_line(items: Iterable[str], most: int = 5) -> str:
    """The first of them in a message."""
    shown = sorted(items)
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")

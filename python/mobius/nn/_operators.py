"""What is known of each operator: its operands, results and attributes (operators.txt, which scripts/make_operators.py writes)."""

from __future__ import annotations

import difflib
from collections import namedtuple
from functools import cache
from importlib.resources import files

# `mark`: "" required, "?" may be left out, "*" any number. `kind`: f, i, n, b or o: what the type takes first of all.
Port = namedtuple("Port", ["name", "mark", "type", "kind"])
Operator = namedtuple("Operator", ["domain", "name", "inputs", "outputs", "attributes", "required"])

MICROSOFT = "com.microsoft"


@cache
def _lines() -> dict[tuple[str, str], str]:
    out = {}
    for line in files("mobius.nn").joinpath("operators.txt").read_text(encoding="utf-8").splitlines():
        head, _, rest = line.partition(" | ")
        domain, name = head.split()
        out["" if domain == "ai.onnx" else domain, name] = rest
    return out


def _port(text: str) -> Port:
    name, _, kind = text.partition(":")
    variable, _, kind = kind.partition("=")
    mark = name[-1] if name[-1] in "?*" else ""
    return Port(name[: len(name) - len(mark)], mark, variable, kind)


@cache
def operator(domain: str, name: str) -> Operator | None:
    """None when there is no such operator."""
    line = _lines().get((domain, name))
    if line is None:
        return None
    inputs, outputs, attributes = line.split("|")
    kinds = {}
    required = set()
    for item in attributes.split():
        key, _, kind = item.partition(":")
        kinds[key] = int(kind.rstrip("!"))
        if kind.endswith("!"):
            required.add(key)
    return Operator(domain, name, tuple(map(_port, inputs.split())), tuple(map(_port, outputs.split())), kinds, frozenset(required))


def find(name: str, domain: str | None) -> Operator:
    """The operator of this name: of the standard, else of com.microsoft; or of `domain` alone. AttributeError, with near names, when there is none."""
    for home in (("", MICROSOFT) if domain is None else (domain,)):
        if found := operator(home, name):
            return found
    known = [key[1] for key in _lines() if domain is None or key[0] == domain]
    near = difflib.get_close_matches(name, known, 3)
    raise AttributeError(f"there is no operator {name}" + (f" in {domain}" if domain else "") + (f"; near: {', '.join(near)}" if near else ""))


def names() -> list[str]:
    return sorted({name for _, name in _lines()})

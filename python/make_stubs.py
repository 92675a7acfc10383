#!/usr/bin/env python3
"""Writes the type stubs that follow from the built module: _native.pyi, from its functions' signatures, and _ep.pyi, from the table of EP fields.

usage: make_stubs.py FOLDER      FOLDER/mobius is the package
"""
import ast
import inspect
import sys
from pathlib import Path

FIELD_TYPES = {"dict": "dict[str, str]", "frozenset": "frozenset[DataType]"}


def signature(name: str, function: object, is_method: bool) -> list[str]:
    """pybind11 writes the signature into the first line of the documentation; one that Python can't read becomes Any."""
    line = (inspect.getdoc(function) or "").split("\n")[0].replace("mobius._native.", "").replace("collections.abc.", "").replace("typing_extensions.Buffer", "Any")
    text = f"def {name}{line[line.index('('):]}: ..." if "(" in line and "->" in line else ""
    try:
        ast.parse(text)
    except SyntaxError:
        text = ""
    if not text:
        text = f"def {name}({'self, ' if is_method else ''}*args: Any, **kwargs: Any) -> {'None' if name == '__init__' else 'Any'}: ..."
    return [text]


def class_stub(name: str, kind: type) -> list[str]:
    body: list[str] = []
    for member, value in sorted(vars(kind).items()):
        if isinstance(value, property):
            doc = inspect.getdoc(value.fget) or "" if value.fget else ""
            result = doc.split("->")[-1].strip().replace("mobius._native.", "") if "->" in doc else "Any"
            try:
                ast.parse(result)
            except SyntaxError:
                result = "Any"
            result = "Any" if result == "object" else result
            body += ["@property", f"def {member}(self) -> {result}: ..."]
            if value.fset:
                body += [f"@{member}.setter", f"def {member}(self, value: Any) -> None: ..."]
        elif (member == "__init__" or not member.startswith("_")) and callable(getattr(kind, member)):
            static = isinstance(value, staticmethod)
            body += (["@staticmethod"] if static else []) + signature(member, getattr(kind, member), not static)
    if name == "Tensor":  # mobius.nn adds these
        body += [f"def __{side}{symbol}__(self, other: Any) -> Tensor: ..." for symbol in ("add", "sub", "mul", "truediv", "matmul", "pow") for side in ("", "r")]
        body += ["def __neg__(self) -> Tensor: ..."]
    return [f"class {name}:", *("    " + line for line in body or ["..."])]


def native_stub(native: object) -> str:
    lines = ['"""The native part of mobius; use the package mobius."""', "import collections.abc", "import typing", "from collections.abc import *", "from typing import *",
             "from mobius._dtypes import DataType", "__version__: str", "context: Any"]
    for name, value in sorted(vars(native).items()):
        if isinstance(value, type):
            lines += class_stub(name, value)
        elif callable(value) and not name.startswith("_"):
            lines += signature(name, value, False)
    return "\n".join(lines) + "\n"


def ep_stub() -> str:
    import dataclasses

    from mobius import _ep

    lines = ["import dataclasses", "from collections.abc import Iterator, Mapping", "from typing import Any, overload", "from mobius._dtypes import DataType as DataType",
             "@dataclasses.dataclass(frozen=True)", "class EpCapabilities:"]
    texts = {name: text for name, (_, _, text) in _ep._TABLE.items()}
    for field in dataclasses.fields(_ep.EpCapabilities):
        kind = getattr(field.type, "__name__", "Any")
        default = "" if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING else " = ..."
        lines.append(f"    {field.name}: {FIELD_TYPES.get(kind, kind)}{default}  # {texts[field.name]}")
    lines += ["class EpRegistry(Mapping[str, EpCapabilities]):", "    def get(self, name: str, default: Any = None) -> EpCapabilities | Any: ...",
              "    def require(self, name: str) -> EpCapabilities: ...", "    def register(self, caps: EpCapabilities, *, overwrite: bool = False) -> None: ...",
              "    def __getitem__(self, name: str) -> EpCapabilities: ...", "    def __iter__(self) -> Iterator[str]: ...", "    def __len__(self) -> int: ...",
              "ep_registry: EpRegistry", "def get_ep(name: str) -> EpCapabilities: ...",
              "def register_ep(caps: EpCapabilities, *, overwrite: bool = False) -> None: ...", "def capabilities_json(capabilities: EpCapabilities) -> str: ..."]
    return "\n".join(lines) + "\n"


def main() -> int:
    folder = Path(sys.argv[1])
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    from mobius import _native

    for name, text in (("_native.pyi", native_stub(_native)), ("_ep.pyi", ep_stub())):
        ast.parse(text)
        (folder / "mobius" / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

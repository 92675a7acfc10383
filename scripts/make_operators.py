#!/usr/bin/env python3
"""Writes the table of operators that mobius.nn's `op` knows, python/mobius/nn/operators.txt, from the schemas of onnx and onnxruntime.

usage: .venv/bin/python scripts/make_operators.py [--check]      --check: exit 1 when the file is not what would be written

One line per operator:   domain Name | inputs | outputs | attributes
An input or output is name:type, with ? (may be left out) or * (any number) behind the name; a type is a type variable (T), and what it takes
first of all: f floats, i int64, n int32, b bool, o anything else. An attribute is name:kind, kind as in AttributeProto.AttributeType, with ! when it must be given.
"""
import re
import sys
from pathlib import Path

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as ort

OPSET = 24
PATH = Path(__file__).resolve().parent.parent / "python" / "mobius" / "nn" / "operators.txt"


def first_choice(types) -> str:
    names = {re.sub(r"^tensor\((\w+)\)$", r"\1", t) for t in types}
    for letter, choices in (("f", ("float", "float16", "double")), ("i", ("int64",)), ("n", ("int32",)), ("b", ("bool",))):
        if names & set(choices):
            return letter
    return "o"


def type_of(parameter) -> str:
    return getattr(parameter, "type_str", None) or parameter.typeStr


def port(parameter, constraints: dict) -> str:
    option = str(parameter.option)
    mark = "*" if "ariadic" in option else "?" if "ptional" in option else ""
    types = constraints.get(type_of(parameter), [type_of(parameter)])
    # A fixed type is a variable of its own.
    name = type_of(parameter) if type_of(parameter) in constraints else re.sub(r"\W", "_", type_of(parameter))
    return f"{parameter.name.replace(' ', '_')}{mark}:{name}={first_choice(types)}"


def line(domain: str, schema) -> str:
    constraints = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
    attributes = [f"{name}:{int(getattr(a.type, 'value', a.type))}{'!' if a.required else ''}" for name, a in sorted(schema.attributes.items())]
    parts = [" ".join(port(p, constraints) for p in schema.inputs), " ".join(port(p, constraints) for p in schema.outputs), " ".join(attributes)]
    return f"{domain or 'ai.onnx'} {schema.name} | " + " | ".join(parts)


KINDS = {"UNDEFINED": 0, "FLOAT": 1, "INT": 2, "STRING": 3, "TENSOR": 4, "GRAPH": 5, "FLOATS": 6, "INTS": 7, "STRINGS": 8, "TENSORS": 9, "GRAPHS": 10,
         "SPARSE_TENSOR": 11, "SPARSE_TENSORS": 12, "TYPE_PROTO": 13, "TYPE_PROTOS": 14}


class Contrib:
    """An onnxruntime schema with the members of an onnx one."""

    def __init__(self, schema) -> None:
        self.name, self.inputs, self.outputs, self.type_constraints = schema.name, schema.inputs, schema.outputs, schema.type_constraints
        self.attributes = {name: type("A", (), {"type": KINDS[str(a.type).rsplit(".", 1)[-1]], "required": a.required}) for name, a in schema.attributes.items()}


def text() -> str:
    lines = []
    for name in sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}):
        try:
            schema = onnx.defs.get_schema(name, OPSET, "")
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            lines.append(line("", schema))
    contrib = {}
    for schema in ort.get_all_operator_schema():
        if schema.domain == "com.microsoft" and not schema.deprecated and (schema.name not in contrib or contrib[schema.name].since_version < schema.since_version):
            contrib[schema.name] = schema
    lines += [line("com.microsoft", Contrib(contrib[name])) for name in sorted(contrib)]
    return "\n".join(lines) + "\n"


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        return 0 if PATH.read_text() == text() else 1
    PATH.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Every model type that the program builds, against the reference of its golden case: a type is in when this passes.

Cases are the folders of testdata/golden and of the folder that MOBIUS_GOLDEN names whose type `mobius list models` has.
test_golden and test_ep_numbers look deeper into the cases of testdata/golden.
"""
import json
import os
from pathlib import Path

import onnx
import pytest
from conftest import TESTDATA, run_mobius
from golden_check import Case, OnnxRuntime, load
from test_ep_numbers import F16_EPS, LEFT_PADDED, assert_within, errors, runs_of

# Packages whose rows may be padded on either side.
PORTABLE = {"default": (), "onnx-standard": (), "cpu with any padding": ("--padding", "any")}


def known_types() -> set[str]:
    listed = json.loads(run_mobius("list", "models", "--json").stdout)
    return {row["type"] for row in listed}


def find_cases() -> dict[str, Path]:
    types, found = known_types(), {}
    for root in filter(None, [os.environ.get("MOBIUS_GOLDEN"), TESTDATA / "golden"]):
        for file in Path(root).glob("*/case.json"):
            if json.loads((file.parent / "config.json").read_text())["model_type"] in types:
                found[file.parent.name] = file.parent
    return dict(sorted(found.items()))


FOLDERS = find_cases()


def each(key: str, choices):
    """Every case with every choice; a case's tests run in one process."""
    rows = [pytest.param(name, choice, marks=pytest.mark.xdist_group(name), id=f"{name}-{choice}") for name in FOLDERS for choice in choices]
    return pytest.mark.parametrize(f"name,{key}", rows)


def package_for(built, name: str, target: str) -> Path:
    ep, *_ = target.split()
    return built(FOLDERS[name], "--ep", ep, "--dtype", "f32", *PORTABLE.get(target, ()))


@each("target", [*PORTABLE, "cpu"])
def test_matches_reference(name, target, built):
    case, package = Case(FOLDERS[name]), package_for(built, name, target)
    if target in PORTABLE:
        assert runs_of(case, package) == case.runs
    assert_within(errors(case, package), case.allowed_error)


@each("target", ["default", "cpu"])
def test_generates_the_same_tokens(name, target, built):
    for generated, expected in Case(FOLDERS[name]).greedy(package_for(built, name, target)):
        assert generated == expected

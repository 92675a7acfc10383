"""Golden cases: tiny checkpoints with reference outputs, built for the portable EP and run on three runtimes.

Cases are the folders of testdata/golden, and those named in CASES from the folder that MOBIUS_GOLDEN names.
"""
import os
from pathlib import Path

import onnx
import pytest
from conftest import TESTDATA
from golden_check import Case

CASES = """
llama llama_rope_linear llama_rope_dynamic llama_rope_llama3 llama_rope_yarn llama_sharded llama_f16 code_llama mistral mistral_bf16 ministral
ministral3 qwen2 qwen3 helium seed_oss ernie4_5 phi3 phi3_longrope
""".split()

# Between runtimes on the same graph: what the order of float32 sums may change.
RUNTIME_ERROR = 1e-4


def find_cases() -> dict[str, Path]:
    found = {}
    if more := os.environ.get("MOBIUS_GOLDEN"):
        found = {name: Path(more) / name for name in CASES if (Path(more) / name / "case.json").exists()}
    found |= {file.parent.name: file.parent for file in (TESTDATA / "golden").glob("*/case.json")}
    return dict(sorted(found.items()))


FOLDERS = find_cases()
# Tests of one case run in one process, which then builds its package once.
each_case = pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in FOLDERS])
each_run = pytest.mark.parametrize(
    "name,run", [pytest.param(name, run, marks=pytest.mark.xdist_group(name)) for name, folder in FOLDERS.items() for run in Case(folder).runs])


@pytest.fixture
def package(built, name):
    return built(FOLDERS[name], "--ep", "default", "--dtype", "f32")


def test_there_are_cases():
    assert FOLDERS, "no golden case: testdata/golden is empty"


@each_run
def test_matches_reference_on_onnxruntime(name, run, package):
    case = Case(FOLDERS[name])
    assert case.error(run, package) <= case.allowed_error


@each_case
def test_generates_the_same_tokens(name, package):
    for generated, expected in Case(FOLDERS[name]).greedy(package):
        assert generated == expected


@each_case
def test_passes_the_onnx_checker(name, package):
    # Shape inference in strict mode contradicts contrib operators it doesn't know; full_check alone infers what it can.
    onnx.checker.check_model(package / "model.onnx", full_check=True)


@each_case
@pytest.mark.parametrize("backend", ["reference", "openvino"])
def test_matches_reference_on_other_runtimes(name, backend, package):
    case, graphs = Case(FOLDERS[name]), {}
    for run in case.runs:
        assert case.error(run, package, backend, graphs) <= RUNTIME_ERROR, run

"""Function bodies on ONNX Runtime. A runtime with a kernel never runs the body, so the functions are inlined first: no kernel of the operator is left.

ops_test writes every form of every operator that has a body, with inputs and what the reference makes of them (FunctionForms), and the fixtures with
their bodies (FunctionDump), whose wanted results are those of ORT's own kernels.
"""
import json
import sys
from pathlib import Path

import onnx
import onnx.inliner
import pytest
from onnx import TensorProto

from conftest import TESTDATA
from ort_check import LEVELS, assert_close, numbers, run, value, written_by

sys.path.insert(0, str(TESTDATA / "ops"))
import check_bodies  # noqa: E402


def read_forms(folder: Path) -> dict:
    forms = {form["name"]: form for form in json.loads((folder / "forms.json").read_text())}
    for form in forms.values():
        form["model"] = onnx.load(folder / form["file"])
    return forms


FORMS = written_by("ops_test", "FunctionForms.AreWrittenForOtherRuntimes", "MOBIUS_DUMP_FORMS", read_forms)


def inlined(model: onnx.ModelProto, operator: str) -> onnx.ModelProto:
    model = onnx.inliner.inline_local_functions(model)
    domain, _, op_type = operator.rpartition("::")
    assert not any(node.op_type == op_type and node.domain == domain for node in model.graph.node), "the function was not inlined"
    return model


@pytest.mark.parametrize("name", FORMS)
def test_function_body_runs_with_ort(name):
    form = FORMS[name]
    model = inlined(form["model"], name.rsplit("-", 2)[0])
    inputs = {input_name: value(t) for input_name, t in form["inputs"].items()}
    tolerance = 2e-2 if any(t["type"] == TensorProto.FLOAT16 for t in form["inputs"].values()) else 1e-4
    for what, level in LEVELS.items():
        assert_close(run(model, level, inputs), [numbers(t) for t in form["outputs"].values()], tolerance, f"{form['node']} {what}")


@pytest.mark.parametrize("name", FORMS)
def test_function_body_runs_with_ort_in_half_precision(name):
    form = FORMS[name]
    model = check_bodies.to_half(onnx.ModelProto.FromString(form["model"].SerializeToString()))
    half = {TensorProto.FLOAT: TensorProto.FLOAT16}
    inputs = {input_name: value(t, half.get(t["type"], t["type"])) for input_name, t in form["inputs"].items()}
    results = run(inlined(model, name.rsplit("-", 2)[0]), LEVELS["by default"], inputs)
    assert_close(results, [numbers(t) for t in form["outputs"].values()], 2e-2, form["node"])


def read_fixtures(folder: Path) -> dict:
    return {f"{r['topic']}-{r['name']}-opset{r['opset']}".replace(" ", "_"): r for r in json.loads((folder / "bodies.json").read_text())}


CASES: dict = {}


@pytest.mark.parametrize("name", FIXTURES := written_by("ops_test", "FunctionDump.*", "MOBIUS_DUMP_BODIES", read_fixtures, "bodies.json"))
def test_fixture_runs_with_ort(name):
    record = FIXTURES[name]
    topic = record["topic"]
    if topic not in CASES:
        CASES[topic] = check_bodies.fixtures(topic)
    found = [(kind, d) for kind, differences in check_bodies.check(record, CASES[topic][record["name"]], False) for d in differences]
    assert not found

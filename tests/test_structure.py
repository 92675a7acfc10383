"""The text graphs of testdata/structure through `mobius optimize`: the operators of the reviewed table, and the numbers of the graph as it was.

package_test writes and compares the table itself, for all dtypes; here it is the program that makes the files.
"""
import collections
import json
import re

import numpy as np
import onnx
import onnx.parser
import pytest
from conftest import TESTDATA, execution_providers, run_mobius
from golden_check import OnnxRuntime, relative_error, step
from onnx import numpy_helper

FOLDER = TESTDATA / "structure"
GRAPHS = ["phi3_exported", "gpt2_exported", "gemma2_exported", "bert"]
EPS = [ep["name"] for ep in execution_providers("f32")]
ALLOWED = 2e-5


def role_of(name: str) -> str:
    return "encoder" if name == "bert" else "decoder"


def weight(name: str, dims: list[int], random: np.random.Generator) -> np.ndarray:
    if name.startswith("rotary_emb."):
        angles = np.outer(np.arange(dims[0]), 10000.0 ** (-np.arange(dims[1]) / dims[1]))
        values = np.sin(angles) if "sin" in name else np.cos(angles)
    elif len(dims) == 1:  # biases, and norms around 1
        values = 0.3 * random.standard_normal(dims) + ("norm" in name.lower() or ".ln_" in name) * name.endswith("weight")
    else:
        values = random.standard_normal(dims) * (1 if "embed" in name or ".w" in name.removesuffix(".weight") else dims[-1] ** -0.5)
    return values.astype(np.float32)


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in GRAPHS])
def graph(request, tmp_path_factory):
    """Name and file: weights that are only declared become random ones."""
    model, random = onnx.parser.parse_model((FOLDER / f"{request.param}.txt").read_text()), np.random.default_rng(0)
    for value in list(model.graph.value_info):
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        model.graph.initializer.append(numpy_helper.from_array(weight(value.name, dims, random), value.name))
        model.graph.value_info.remove(value)
    path = tmp_path_factory.mktemp(request.param) / "in.onnx"
    onnx.save(model, path)
    return request.param, path


def steps_of(name: str, padded_on: str) -> list[tuple[dict, np.ndarray]]:
    """Inputs of each step, and which positions are tokens: three rows of 13, 7 and 1 tokens, then one more each, four times."""
    random, length, lengths = np.random.default_rng(1), 13, [13, 7, 1]
    row = {"right": lambda n: [1] * n + [0] * (length - n), "left": lambda n: [0] * (length - n) + [1] * n}[padded_on]
    mask = np.array([row(n) for n in lengths])
    ids = random.integers(0, 160, mask.shape)
    if role_of(name) == "encoder":
        return [({"input_ids": ids, "attention_mask": mask, "token_type_ids": random.integers(0, 2, mask.shape)}, mask)]
    steps = [({"input_ids": ids, "attention_mask": mask, "position_ids": np.maximum(mask.cumsum(1) - 1, 0)}, mask)]
    for _ in range(4):
        mask = np.concatenate([mask, np.ones((3, 1), mask.dtype)], 1)
        new = {"input_ids": random.integers(0, 160, (3, 1)), "attention_mask": mask, "position_ids": mask.sum(1, keepdims=True) - 1}
        steps.append((new, np.ones((3, 1))))
    return steps


def results(path, steps) -> list[np.ndarray]:
    session, cache = OnnxRuntime(path), {}
    return [step(session, given, cache)[session.outputs[0]] for given, _ in steps]


def optimize(graph, out, ep: str, *options):
    name, path = graph
    result = run_mobius("optimize", path, out, "--ep", ep, "--role", role_of(name), *options)
    assert result.returncode == 0, result.stderr
    return onnx.load(out, load_external_data=False)


def table_row(name: str, ep: str) -> dict[str, int]:
    """Operator -> how many, of the reviewed table's row for f32, without what it says of attention's form."""
    section = (FOLDER / "structure.txt").read_text().split(f"\n\n{name}\n", 1)[1].split("\n\n", 1)[0]
    row = next(line for line in section.splitlines() if line.split()[0] == ep and "f32" in line.split("=")[0])
    counts: collections.Counter = collections.Counter()
    for words in row.split(" = ", 1)[1].split(", "):
        counts[words.split()[0]] += int(words.split()[-1])
    return dict(counts)


@pytest.mark.parametrize("ep", EPS)
def test_operators_are_those_of_the_table(graph, ep, tmp_path):
    model = optimize(graph, tmp_path / "out.onnx", ep)
    found = collections.Counter(("ms." if node.domain == "com.microsoft" else node.domain) + node.op_type for node in model.graph.node)
    assert dict(found) == table_row(graph[0], ep)
    if ep == "onnx-standard":
        assert [i.domain for i in model.opset_import] == [""] and not model.functions


@pytest.mark.parametrize("ep", EPS)
@pytest.mark.parametrize("padded_on", ["right", "left"])
def test_numbers_stay(graph, ep, padded_on, tmp_path):
    """The rewritten model runs in ONNX Runtime and equals the original model there."""
    steps = steps_of(graph[0], padded_on)
    optimize(graph, tmp_path / "out.onnx", ep, *([] if padded_on == "right" else ["--padding", "any"]))
    for got, want, (_, valid) in zip(results(tmp_path / "out.onnx", steps), results(graph[1], steps), steps):
        assert relative_error(got, want, valid, False) <= ALLOWED


@pytest.mark.parametrize("graph", ["gpt2_exported"], indirect=True)
def test_left_padding_needs_the_option(graph, tmp_path):
    """Else the test above would not tell the two forms of attention apart."""
    steps = steps_of(graph[0], "left")
    optimize(graph, tmp_path / "out.onnx", "cpu")
    got, want = results(tmp_path / "out.onnx", steps)[0], results(graph[1], steps)[0]
    assert relative_error(got, want, steps[0][1], False) > 0.05


def test_the_json_trace_adds_up(graph, tmp_path):
    optimize(graph, tmp_path / "out.onnx", "cpu", "--trace-json", tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert (trace["ep"], trace["dtype"], trace["role"]) == ("cpu", "FLOAT", role_of(graph[0]))
    steps = trace["steps"]
    for before, after in zip(steps, steps[1:]):
        assert before["nodes_after"] == after["nodes_before"], after["name"]
    for entry in steps:
        if "matched" in entry:
            assert entry["nodes_before"] + entry["added"] - entry["removed"] == entry["nodes_after"], entry["name"]
            assert sum(entry["changes"].values()) == entry["added"] - entry["removed"]
    assert any(entry.get("matched") for entry in steps)
    assert steps[-1]["nodes_after"] == len(onnx.load(tmp_path / "out.onnx", load_external_data=False).graph.node)
    for entry in steps:  # a place and what was missing there, or that no place can be
        assert re.fullmatch(r"\S+: .+|the graph has no .+", entry.get("nearest_miss", "the graph has no ...")), entry

"""The golden checker itself, on a toy graph whose answer is known: logits are running sums of embeddings, kept going by a cache."""
import json
import math

import numpy as np
import onnx
import pytest
from golden_check import BACKENDS, Case, relative_error
from onnx.parser import parse_model
from safetensors.numpy import save_file

EMBEDDINGS = np.array([[1, 0, 0, 2], [0, 1, 0, -1], [0, 0, 3, 0]], np.float32)

TOY = """
<ir_version: 10, opset_import: ["" : 21]>
toy (int64[batch, seq] input_ids, float[batch, 1, length, 4] past)
    => (float[batch, seq, 4] logits, float[batch, 1, total, 4] present)
<float[3, 4] table = {1, 0, 0, 2, 0, 1, 0, -1, 0, 0, 3, 0}>
{
    one = Constant<value_ints = [1]>()
    two = Constant<value_int = 2>()
    x = Gather(table, input_ids)
    heads = Unsqueeze(x, one)
    present = Concat<axis = 2>(past, heads)
    sums = CumSum(present, two)
    past_shape = Shape<start = 2, end = 3>(past)
    all_shape = Shape<start = 2, end = 3>(present)
    axis = Constant<value_ints = [2]>()
    fresh = Slice(sums, past_shape, all_shape, axis)
    logits = Squeeze(fresh, one)
}
"""


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    model = parse_model(TOY)
    # The textual syntax has no dots in names.
    dotted = {"past": "past_key_values.0.key", "present": "present.0.key"}
    for node in model.graph.node:
        node.input[:] = [dotted.get(name, name) for name in node.input]
        node.output[:] = [dotted.get(name, name) for name in node.output]
    for port in [*model.graph.input, *model.graph.output]:
        port.name = dotted.get(port.name, port.name)
    onnx.save(model, folder / "model.onnx")
    return folder


@pytest.fixture
def make_case(tmp_path):
    """A case of two rows in two steps; the first position of the second row is not valid."""

    def make(change=lambda io: None, **call):
        steps = [np.array([[0, 1], [2, 2]]), np.array([[2], [1]])]
        valid = [np.array([[1, 1], [0, 1]]), np.array([[1], [1]])]
        sums = np.cumsum(EMBEDDINGS[np.concatenate(steps, 1)], axis=1)
        io, at = {}, 0
        for number, (ids, mask) in enumerate(zip(steps, valid)):
            io[f"run.model.{number}.input_ids"], io[f"run.model.{number}.valid"] = ids, mask
            io[f"run.model.{number}.attention_mask"] = np.ones((2, at + ids.shape[1]), np.int64)  # the graph has no such input
            io[f"run.model.{number}.logits"] = sums[:, at : at + ids.shape[1]].copy()
            at += ids.shape[1]
        io["run.model.0.logits"][1, 0] = 1000  # a position that is not valid
        change(io)
        step = {"inputs": ["input_ids", "attention_mask"], "outputs": ["logits"], "where": {"logits": "valid"}, **call}
        greedy = {"prompts": [[1, 2]], "ids": [[2, 2, 2]]}
        folder = tmp_path / "case"
        folder.mkdir(exist_ok=True)
        description = {"max_relative_error": 1e-4, "runs": {"run": [{"component": "model", "steps": [step, step]}]}, "greedy": greedy}
        (folder / "case.json").write_text(json.dumps(description))
        save_file({name: np.ascontiguousarray(value) for name, value in io.items()}, folder / "io.safetensors")
        return Case(folder)

    return make


@pytest.mark.parametrize("backend", BACKENDS)
def test_accepts_what_is_right(backend, package, make_case):
    assert make_case().error("run", package, backend) == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_measures_what_is_wrong(backend, package, make_case):
    def change(io):
        io["run.model.1.logits"][0, 0, 2] = 6  # is 3

    assert make_case(change).error("run", package, backend) == pytest.approx(0.5)


def test_finds_a_component_in_its_own_folder(package, make_case):
    (package / "model").mkdir()
    (package / "model.onnx").rename(package / "model" / "model.onnx")
    assert make_case().error("run", package) == 0


def test_names_a_missing_output(package, make_case):
    with pytest.raises(ValueError, match=r"run.model.0: no output scores"):
        make_case(outputs=["scores"]).error("run", package)


def test_names_a_wrong_shape(package, make_case):
    def change(io):
        io["run.model.0.logits"] = io["run.model.0.logits"][:, :, :3]

    with pytest.raises(ValueError, match=r"run.model.0.logits: has shape \[2, 2, 4\], expected \[2, 2, 3\]"):
        make_case(change).error("run", package)


def test_joins_leading_dimensions_only_where_allowed():
    got, want = np.ones((2, 3, 4)), np.ones((6, 4))
    assert relative_error(got, want, None, may_flatten=True) == 0
    with pytest.raises(ValueError):
        relative_error(got, want, None, may_flatten=False)


def test_what_is_not_finite_is_wrong():
    assert relative_error(np.array([1, np.nan]), np.array([1.0, 1.0]), None, False) == math.inf
    assert relative_error(np.array([1, np.nan]), np.array([1.0, 1.0]), np.array([1, 0]), False) == 0


def test_generates(package, make_case):
    # The sums are [0, 1, 3, -1] (token 2), [0, 1, 6, -1] (token 2) and so on.
    [(generated, expected)] = make_case().greedy(package)
    assert generated == expected == [2, 2, 2]

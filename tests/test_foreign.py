"""Graphs that others exported (testdata/foreign): what they become for each execution provider, and their numbers on ONNX Runtime."""
import collections
import os
from pathlib import Path

import golden_check
import numpy as np
import onnx
import pytest
from conftest import ROOT, TESTDATA, execution_providers
from safetensors.numpy import load_file

FOLDER = TESTDATA / "foreign"
CHECKPOINTS = ("llama", "llama_f16", "gpt2", "gpt_neox", "bert", "mixtral", "granitemoe")
FIXTURES = sorted(f.stem for f in FOLDER.glob("*.onnx") if f.name.split(".")[0] in CHECKPOINTS)
# ONNX Runtime's CPU provider has kernels for all that is written for them, or runs function bodies.
EVERY_EP = [ep["name"] for ep in execution_providers("f32")]
PORTABLE = ("default", "onnx-standard")

F32_ERROR, F16_ERROR = 1e-4, 2e-2


def checkpoint(name: str) -> str:
    return name.split(".")[0]


def case_of(name: str) -> golden_check.Case:
    folders = [FOLDER / checkpoint(name), TESTDATA / "golden" / checkpoint(name), Path(os.environ.get("MOBIUS_GOLDEN", ROOT)) / checkpoint(name)]
    folder = next((f for f in folders if (f / "case.json").exists()), None)
    if folder is None:
        pytest.skip(f"no golden case {checkpoint(name)}: MOBIUS_GOLDEN names no folder that has it")
    return golden_check.Case(folder)


def cache_input(output: str, inputs) -> str | None:
    """transformers' own exporter has other names."""
    if output.startswith("cache."):
        return "past_key_values." + output.removeprefix("cache.")
    return usual_cache_input(output, inputs)


usual_cache_input = golden_check.cache_input


@pytest.fixture(autouse=True)
def names_of_transformers(monkeypatch):
    monkeypatch.setattr(golden_check, "cache_input", cache_input)


@pytest.fixture(scope="module")
def optimised(mobius, tmp_path_factory):
    """optimised(fixture, ep, ...) -> the folder of its model.onnx; each is made once."""
    made: dict = {}

    def optimise(name: str, ep: str, *options: str) -> Path:
        if (name, ep, *options) not in made:
            folder = tmp_path_factory.mktemp("foreign")
            role = "encoder" if checkpoint(name) == "bert" else "decoder"
            result = mobius("optimize", FOLDER / f"{name}.onnx", folder / "model.onnx", "--ep", ep, "--role", role, *options)
            assert result.returncode == 0, f"{name} for {ep}:\n{result.stdout}{result.stderr}"
            made[name, ep, *options] = folder
        return made[name, ep, *options]

    return optimise


def count(folder: Path) -> collections.Counter:
    return collections.Counter(n.op_type for n in onnx.load(folder / "model.onnx", load_external_data=False).graph.node)


def each(fixtures, eps):
    return pytest.mark.parametrize("name,ep", [pytest.param(n, e, marks=pytest.mark.xdist_group(n)) for n in fixtures for e in eps])


DECODERS = [f for f in FIXTURES if checkpoint(f) in ("llama", "gpt2", "gpt_neox", "mixtral", "granitemoe")]


def test_there_are_fixtures():
    assert len(FIXTURES) == 33


@each(FIXTURES, EVERY_EP)
def test_numbers_are_the_references(name, ep, optimised):
    case, folder = case_of(name), optimised(name, ep)
    ops = count(folder)
    # GroupQueryAttention counts the tokens of a row: padding stands on the right.
    runs = [r for r in case.runs if r != "left_padded" or "GroupQueryAttention" not in ops]
    allowed = F16_ERROR if checkpoint(name) == "llama_f16" else F32_ERROR
    errors = {run: case.error(run, folder) for run in runs}
    assert max(errors.values()) <= allowed, errors


@each(FIXTURES, ("default", "cpu", "dml", "webgpu"))
def test_opset_21_has_the_same_fused_operators(name, ep, optimised):
    """The standard's Attention, RotaryEmbedding and RMSNormalization are newer, and fused ones are made of them: they are met on the way only."""
    case, folder, newest = case_of(name), optimised(name, ep, "--opset", "21"), optimised(name, ep)
    model, ops, wanted = onnx.load(folder / "model.onnx", load_external_data=False), count(folder), count(newest)
    assert {i.version for i in model.opset_import if i.domain == ""} == {21}
    onnx.checker.check_model(folder / "model.onnx")
    assert not {"Attention", "RotaryEmbedding", "RMSNormalization"} & {n.op_type for n in model.graph.node if not n.domain}
    fused = ("GroupQueryAttention", "SkipSimplifiedLayerNormalization", "SkipLayerNormalization", "BiasGelu", "FastGelu")
    assert {op: ops[op] for op in fused} == {op: wanted[op] for op in fused}
    runs = [r for r in case.runs if r != "left_padded" or "GroupQueryAttention" not in ops]
    assert max(case.error(run, folder) for run in runs) <= (F16_ERROR if checkpoint(name) == "llama_f16" else F32_ERROR)


@each(FIXTURES, PORTABLE)
def test_portable_graphs_take_padding_on_any_side(name, ep, optimised):
    ops = count(optimised(name, ep))
    routers = 2 if "batched" in name else 0
    assert (ops["Attention"], ops["Softmax"], ops["GroupQueryAttention"]) == (2, routers, 0)


@each([f for f in DECODERS if checkpoint(f) == "llama"], ["cpu"])
def test_llama_becomes_grouped_attention_and_fused_norms(name, ep, optimised):
    ops = count(optimised(name, ep))
    wanted = {"GroupQueryAttention": 2, "SkipSimplifiedLayerNormalization": 4, "RMSNormalization": 1}
    gone = ("Attention", "Softmax", "RotaryEmbedding", "Where", "Expand", "IsNaN", "Pow", "Neg")
    assert {op: ops[op] for op in wanted} == wanted
    assert {op: ops[op] for op in gone} == dict.fromkeys(gone, 0), ops


@each([f for f in DECODERS if checkpoint(f) in ("gpt2", "gpt_neox")], ["cpu"])
def test_other_decoders_become_grouped_attention(name, ep, optimised):
    ops = count(optimised(name, ep))
    assert (ops["GroupQueryAttention"], ops["Attention"], ops["Softmax"]) == (2, 0, 0)


@each([f for f in FIXTURES if "batched" in f], ["cpu", "cuda"])
def test_gathered_experts_become_one_operator(name, ep, optimised):
    ops = count(optimised(name, ep))
    assert (ops["MoE"], ops["TopK"], ops["Softmax"]) == (2, 0, 0)


@each([f for f in FIXTURES if checkpoint(f) == "bert"], ["cpu"])
def test_encoders_become_attention(name, ep, optimised):
    ops = count(optimised(name, ep))
    assert (ops["Attention"], ops["Softmax"], ops["SkipLayerNormalization"]) == (2, 0, 4)


PIECES = sorted(f.stem for f in FOLDER.glob("pieces.*.onnx"))


@each(PIECES, EVERY_EP)
def test_single_parts_keep_their_numbers(name, ep, optimised):
    expected = load_file(FOLDER / "pieces.safetensors")
    graph = golden_check.OnnxRuntime(optimised(name, ep) / "model.onnx")
    results = graph.run({port.name: expected[port.name] for port in graph.inputs})
    assert len(results) > 30
    for part, got in results.items():
        want = expected[part].astype(np.float64)
        error = np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()
        assert error <= (F16_ERROR if part.endswith("f16") else F32_ERROR), part

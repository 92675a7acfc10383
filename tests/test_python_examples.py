"""examples/python_layer: a decoder layer of one's own gives on ONNX Runtime the numbers of its numpy counterpart."""
import subprocess
import sys

import numpy as np
import onnx
import pytest
from checkpoints import LLAMA
from conftest import ROOT
from python_support import run_logits
from safetensors.numpy import load_file
from test_examples import HEADS, KV_HEADS, SIZE, rms_norm, rope

EPS = ("default", "cpu", "onnx-standard")


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    out = tmp_path_factory.mktemp("python_layer")
    done = subprocess.run([sys.executable, ROOT / "examples" / "python_layer" / "layer.py", LLAMA, out], check=True, capture_output=True, text=True)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(EPS)
    return out


def reference(ids):
    """The model in numpy, on one row: logits [S, vocabulary]."""
    w = {name: value.astype(np.float64) for name, value in load_file(LLAMA / "model.safetensors").items()}
    x = w["model.embed_tokens.weight"][ids]
    for i in range(2):
        at = f"model.layers.{i}."
        h = rms_norm(x, w[at + "input_layernorm.weight"])
        q, k, v = ((h @ w[at + f"self_attn.{name}_proj.weight"].T).reshape(len(ids), heads, SIZE).transpose(1, 0, 2)
                   for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))
        q, k = rope(q), rope(k)
        k, v = (t.repeat(HEADS // KV_HEADS, 0) for t in (k, v))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(SIZE) + np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        attended = (weights / weights.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), -1) @ w[at + "self_attn.o_proj.weight"].T
        gate = np.tanh(h @ w[at + "mlp.gate_proj.weight"].T)
        x = x + attended + (gate**2 * (h @ w[at + "mlp.up_proj.weight"].T)) @ w[at + "mlp.down_proj.weight"].T
    return rms_norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


@pytest.mark.parametrize("ep", EPS)
def test_gives_its_own_numbers(packages, ep):
    ids = np.array([[5, 17, 150, 3, 42, 99, 8]])
    want = reference(ids[0])
    assert np.abs(run_logits(packages / ep / "model.onnx", ids)[0] - want).max() <= 1e-4 * np.abs(want).max()


def test_is_optimised_like_any_other(packages):
    graphs = {ep: onnx.load(packages / ep / "model.onnx", load_external_data=False) for ep in EPS}
    operators = {ep: [n.op_type for n in g.graph.node] for ep, g in graphs.items()}
    assert operators["cpu"].count("GroupQueryAttention") == 2 and "RotaryEmbedding" not in operators["cpu"]
    assert operators["default"].count("Attention") == 2 and "FusedMatMul" in operators["default"]
    assert all(not n.domain for n in graphs["onnx-standard"].graph.node) and not graphs["onnx-standard"].functions

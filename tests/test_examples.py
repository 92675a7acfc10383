"""The programs in examples/: they run, and what they build gives right numbers."""
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from checkpoints import LLAMA
from conftest import PROGRAM
from safetensors.numpy import load_file

HEADS, KV_HEADS, SIZE = 4, 2, 16


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    out = tmp_path_factory.mktemp("custom_model")
    subprocess.run([PROGRAM.parent / "custom_model", LLAMA, out], check=True)
    return out


def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def rope(x):  # [heads, S, SIZE]
    angles = np.arange(x.shape[1])[:, None] / 10000.0 ** (np.arange(0, SIZE, 2) / SIZE)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def reference(ids):
    """The model in numpy, on one row: logits [S, vocabulary]."""
    w = {name: value.astype(np.float64) for name, value in load_file(LLAMA / "model.safetensors").items()}
    x = w["model.embed_tokens.weight"][ids]
    for i in range(2):
        at = f"model.layers.{i}."
        h = rms_norm(x, w[at + "input_layernorm.weight"])
        q, k, v = (
            (h @ w[at + f"self_attn.{name}_proj.weight"].T).reshape(len(ids), heads, SIZE).transpose(1, 0, 2)
            for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))
        q, k = (rope(t / np.sqrt((t * t).sum(-1, keepdims=True) + 1e-6)) for t in (q, k))
        k, v = (t.repeat(HEADS // KV_HEADS, 0) for t in (k, v))
        scores = 10 * q @ k.transpose(0, 2, 1) + np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y = (weights / weights.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), -1)
        x = x + y @ w[at + "self_attn.o_proj.weight"].T
        h = rms_norm(x, w[at + "post_attention_layernorm.weight"])
        gate = h @ w[at + "mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[at + "mlp.up_proj.weight"].T)) @ w[at + "mlp.down_proj.weight"].T
    return rms_norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


@pytest.mark.parametrize("ep", ["default", "cpu", "onnx-standard"])
def test_custom_model_gives_its_own_numbers(packages, ep):
    ids = np.array([[5, 17, 150, 3, 42, 99, 8]])
    session = onnxruntime.InferenceSession(packages / ep / "model.onnx", providers=["CPUExecutionProvider"])
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.arange(7)[None]}
    feed |= {f"past_key_values.{i}.{part}": np.zeros((1, KV_HEADS, 0, SIZE), np.float32) for i in range(2) for part in ("key", "value")}
    names = {i.name for i in session.get_inputs()}
    logits = session.run(["logits"], {name: value for name, value in feed.items() if name in names})[0][0]
    want = reference(ids[0])
    assert np.abs(logits - want).max() <= 1e-4 * np.abs(want).max()


def test_custom_model_is_optimised_like_any_other(packages):
    operators = {ep: [n.op_type for n in onnx.load(packages / ep / "model.onnx", load_external_data=False).graph.node] for ep in ("default", "cpu", "onnx-standard")}
    assert operators["cpu"].count("GroupQueryAttention") == 2 and "RotaryEmbedding" not in operators["cpu"]
    assert operators["default"].count("Attention") == 2 and "FusedMatMul" in operators["default"]
    standard = onnx.load(packages / "onnx-standard" / "model.onnx", load_external_data=False)
    assert all(not n.domain for n in standard.graph.node) and not standard.functions

#!/usr/bin/env python3
"""Writes the GGUF files of this folder with the PyPI package gguf: python make_fixtures.py

quants.gguf     blocks of each quantised type ("Q4_K") beside their values ("Q4_K.values") as gguf.quants.dequantize gives them
metadata.gguf   one key of each value type, and tensors of each plain type
split-0000?-of-00002.gguf   a model in two parts
tiny_llama.gguf   a whole model of two layers with a byte-level tokenizer, weights in Q4_0, Q8_0 and F16
tiny_gemma3.gguf  a whole model of one layer with a SentencePiece vocabulary
"""
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T, GGUFValueType as V, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

here = Path(__file__).parent
rng = np.random.default_rng(20)

# Where each type keeps its float16 scales, in bytes from the start of a block.
SCALES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}  # fmt: skip
EXTREMES = np.array([1.0, 65504.0, 6e-8, -0.0, -3.7, 6.1e-5, 0.00123, -65504.0, 0.5, 1e-7], np.float16)


def quants() -> None:
    writer = GGUFWriter(here / "quants.gguf", "none")
    for qtype, scales in SCALES.items():
        elements, size = GGML_QUANT_SIZES[qtype]
        rows, blocks = 2, 5
        raw = rng.integers(0, 256, (rows * blocks, size), np.uint8)
        for i, at in enumerate(scales):
            raw[:, at : at + 2] = np.roll(EXTREMES, 3 * i).view(np.uint8).reshape(-1, 2)
        raw = raw.reshape(rows, blocks * size)
        writer.add_tensor(qtype.name, raw, raw_dtype=qtype)
        writer.add_tensor(f"{qtype.name}.values", dequantize(raw, qtype).astype(np.float32))
    finish(writer)


def metadata() -> None:
    writer = GGUFWriter(here / "metadata.gguf", "none")
    writer.add_custom_alignment(64)
    values = {
        V.UINT8: 200, V.INT8: -100, V.UINT16: 60000, V.INT16: -30000, V.UINT32: 4000000000, V.INT32: -2000000000,
        V.FLOAT32: 1e-5, V.BOOL: True, V.STRING: "Łódź", V.UINT64: 1 << 62, V.INT64: -(1 << 62), V.FLOAT64: 0.1,
    }  # fmt: skip
    for vtype, value in values.items():
        writer.add_key_value(f"test.{vtype.name.lower()}", value, vtype)
    writer.add_array("test.strings", ["a", "", "ß"])
    writer.add_array("test.integers", [3, -1, 2])
    writer.add_array("test.floats", [0.5, -2.0])
    writer.add_array("test.booleans", [True, False])
    writer.add_array("test.nested", [[1, 2], [3]])
    for dtype in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        writer.add_tensor(np.dtype(dtype).name, np.arange(6, dtype=dtype).reshape(2, 3))
    bf16 = (np.arange(6, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16).reshape(2, 3)
    writer.add_tensor("bfloat16", bf16.view(np.uint8), raw_dtype=T.BF16)
    finish(writer)


def split() -> None:
    for part in range(2):
        writer = GGUFWriter(here / f"split-0000{part + 1}-of-00002.gguf", "llama")
        writer.add_key_value("split.no", part, V.UINT16)
        writer.add_key_value("split.count", 2, V.UINT16)
        writer.add_key_value("split.tensors.count", 3, V.INT32)
        if part == 0:
            writer.add_string("general.name", "in two parts")
            writer.add_tensor("output_norm.weight", np.arange(4, dtype=np.float32))
        else:
            writer.add_tensor("token_embd.weight", np.arange(8, dtype=np.float32).reshape(2, 4))
            writer.add_tensor("output.weight", np.arange(8, 16, dtype=np.float32).reshape(2, 4))
        finish(writer)


def shape_keys(writer: GGUFWriter, layers: int) -> None:
    writer.add_context_length(96)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_block_count(layers)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)


def matrices(layer: int) -> dict[str, tuple[int, int]]:
    shapes = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32)}
    shapes |= {"ffn_gate": (64, 32), "ffn_up": (64, 32), "ffn_down": (32, 64)}
    return {f"blk.{layer}.{name}.weight": shape for name, shape in shapes.items()}


def tiny_llama() -> None:
    writer = GGUFWriter(here / "tiny_llama.gguf", "llama")
    shape_keys(writer, layers=2)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    letters = [chr(c) for c in range(33, 127)] + ["Ġ"]
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters, "th", "the", "Ġthe", "Ċ"]
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["t h", "th e", "Ġ the"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    scale = np.float32(0.2)
    writer.add_tensor("token_embd.weight", quantize(rng.normal(0, scale, (len(tokens), 32)).astype(np.float32), T.Q8_0), raw_dtype=T.Q8_0)
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    for layer in range(2):
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.ones(32, np.float32))
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", np.ones(32, np.float32))
        for name, shape in matrices(layer).items():
            value = rng.normal(0, scale, shape).astype(np.float32)
            if layer == 0:
                writer.add_tensor(name, quantize(value, T.Q4_0), raw_dtype=T.Q4_0)
            else:
                writer.add_tensor(name, value.astype(np.float16))
    finish(writer)


def tiny_gemma3() -> None:
    writer = GGUFWriter(here / "tiny_gemma3.gguf", "gemma3")
    shape_keys(writer, layers=1)
    writer.add_key_length(8)
    writer.add_value_length(8)
    writer.add_sliding_window(16)
    writer.add_rope_freq_base(1000000.0)
    writer.add_tokenizer_model("llama")
    pieces = [("<pad>", 3), ("<eos>", 3), ("<bos>", 3), ("<unk>", 2), ("\n", 4), ("  ", 4), ("<start_of_turn>", 3), ("<end_of_turn>", 3)]
    pieces += [(f"<0x{byte:02X}>", 6) for byte in range(256)]
    pieces += [(piece, 1) for piece in ["▁t", "he", "▁the", "▁", "t", "h", "e", "a"]]
    writer.add_token_list([piece for piece, _ in pieces])
    writer.add_token_types([kind for _, kind in pieces])
    writer.add_token_scores([-float(i) for i in range(len(pieces))])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_space_prefix(False)
    writer.add_tensor("token_embd.weight", rng.normal(0, 1, (len(pieces), 32)).astype(np.float16))
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    for role, size in {"attn_norm": 32, "post_attention_norm": 32, "ffn_norm": 32, "post_ffw_norm": 32, "attn_q_norm": 8, "attn_k_norm": 8}.items():
        writer.add_tensor(f"blk.0.{role}.weight", np.full(size, 1.5, np.float32))
    for name, shape in matrices(0).items():
        writer.add_tensor(name, rng.normal(0, 1, shape).astype(np.float16))
    finish(writer)


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    quants()
    metadata()
    split()
    tiny_llama()
    tiny_gemma3()

#!/usr/bin/env python3
"""Writes the GGUF files of this folder with the PyPI package gguf: python make_fixtures.py

quants.gguf     blocks of each quantised type ("Q4_K") beside their values ("Q4_K.values") as gguf.quants.dequantize gives them
metadata.gguf   one key of each value type, and tensors of each plain type
split-0000?-of-00002.gguf   a model in two parts
"""
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T, GGUFValueType as V, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

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


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    quants()
    metadata()
    split()

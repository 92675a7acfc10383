"""Weights as numpy arrays and back. An array of what lies in memory or in a file is a view of it: nothing is copied."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mobius import _native
from mobius._arguments import text
from mobius._dtypes import DataType, as_dtype

_NUMPY = {
    DataType.FLOAT: "float32", DataType.UINT8: "uint8", DataType.INT8: "int8", DataType.UINT16: "uint16", DataType.INT16: "int16", DataType.INT32: "int32",
    DataType.INT64: "int64", DataType.BOOL: "bool", DataType.FLOAT16: "float16", DataType.DOUBLE: "float64", DataType.UINT32: "uint32",
    DataType.UINT64: "uint64", DataType.COMPLEX64: "complex64", DataType.COMPLEX128: "complex128", DataType.STRING: "object",
}
_ML_DTYPES = {
    DataType.BFLOAT16: ("bfloat16", "uint16"), DataType.FLOAT8E4M3FN: ("float8_e4m3fn", "uint8"), DataType.FLOAT8E4M3FNUZ: ("float8_e4m3fnuz", "uint8"),
    DataType.FLOAT8E5M2: ("float8_e5m2", "uint8"), DataType.FLOAT8E5M2FNUZ: ("float8_e5m2fnuz", "uint8"), DataType.FLOAT8E8M0: ("float8_e8m0fnu", "uint8"),
    DataType.UINT4: ("uint4", "uint8"), DataType.INT4: ("int4", "int8"), DataType.FLOAT4E2M1: ("float4_e2m1fn", "uint8"),
    DataType.UINT2: ("uint2", "uint8"), DataType.INT2: ("int2", "int8"),
}
_PACKED = {DataType.UINT4: 4, DataType.INT4: 4, DataType.FLOAT4E2M1: 4, DataType.UINT2: 2, DataType.INT2: 2}


def numpy_dtype(dtype: DataType) -> np.dtype:
    """Without ml_dtypes, the type of the bare bits stands for what numpy lacks."""
    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    if dtype not in _ML_DTYPES:
        raise TypeError(f"numpy has no type for {dtype!r}")
    name, bits = _ML_DTYPES[dtype]
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(bits)
    return np.dtype(getattr(ml_dtypes, name))


def to_numpy(tensor: _native.TensorData) -> np.ndarray:
    """The tensor as an array that can't be written to; elements of less than a byte are unpacked into a copy."""
    dtype, shape = tensor.dtype, tensor.dims
    if dtype == DataType.STRING:
        return np.array(tensor.strings(), dtype=object).reshape(shape)
    raw = np.frombuffer(tensor.bytes(), dtype=np.uint8)
    if bits := _PACKED.get(dtype):
        count = int(np.prod(shape, dtype=np.int64))
        parts = [(raw >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
        unpacked = np.stack(parts, -1).reshape(-1)[:count]
        if dtype in (DataType.INT4, DataType.INT2):
            unpacked = ((unpacked ^ (1 << bits - 1)).astype(np.int8) - np.int8(1 << bits - 1)).astype(np.int8)
        target = numpy_dtype(dtype)
        return (unpacked.view(target) if dtype == DataType.FLOAT4E2M1 else unpacked.astype(target)).reshape(shape)
    return raw.view(numpy_dtype(dtype)).reshape(shape)


def from_numpy(value: Any, dtype: DataType | None = None) -> _native.TensorData:
    """An array, or what numpy makes one of, as a tensor that refers to the array's memory.

    `dtype` names the element type where the array's own doesn't (bits of bfloat16 in uint16).
    """
    array = value.detach().cpu() if hasattr(value, "detach") else value  # a torch tensor
    if str(getattr(array, "dtype", "")) == "torch.bfloat16":
        import torch

        array, dtype = array.view(torch.uint16).numpy(), DataType.BFLOAT16
    array = np.asarray(array)
    shape = list(array.shape)
    if array.dtype.kind in "OUS":
        items = array.reshape(-1).tolist()
        if kinds := {type(item).__name__ for item in items if not isinstance(item, (str, bytes))}:
            raise TypeError(f"its elements are Python objects ({', '.join(sorted(kinds))})")
        texts = [item if isinstance(item, bytes) else text("an element", item) for item in items]
        return _native.TensorData.of_strings(shape, texts)
    dtype = as_dtype(array.dtype) if dtype is None else dtype
    if bits := _PACKED.get(dtype):
        codes = array.view(np.uint8) if array.dtype.itemsize == 1 else array.astype(np.uint8)
        codes = codes.reshape(-1) & ((1 << bits) - 1)
        codes = np.concatenate([codes, np.zeros(-len(codes) % (8 // bits), np.uint8)]).reshape(-1, 8 // bits)
        array = np.bitwise_or.reduce(codes << np.arange(0, 8, bits, dtype=np.uint8), axis=1).astype(np.uint8)
    array = np.ascontiguousarray(array)
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    return _native.TensorData(array.reshape(-1).view(np.uint8), dtype, shape)

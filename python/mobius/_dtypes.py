"""Element types, and what may stand for one."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Union

from mobius import _native
from mobius._errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np


class DataType(enum.IntEnum):
    """An element type, with the name and number that it has in ONNX.

    Equal to, and hashed as, onnx_ir.DataType's member of the same number: each may stand where the other is expected.
    """

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def numpy(self) -> np.dtype:
        """The numpy dtype; ml_dtypes has those that numpy lacks."""
        from mobius._arrays import numpy_dtype

        return numpy_dtype(self)


# mobius.DataType, onnx_ir.DataType, "f16", "float16", "FLOAT16", numpy.float16, numpy.dtype("float16"), ml_dtypes.bfloat16, torch.float16
DTypeLike = Union[DataType, int, str, type, Any]

_NUMPY_NAMES = {"bool_": "BOOL", "float8_e4m3fn": "FLOAT8E4M3FN", "float8_e4m3fnuz": "FLOAT8E4M3FNUZ", "float8_e5m2": "FLOAT8E5M2",
                "float8_e5m2fnuz": "FLOAT8E5M2FNUZ", "float4_e2m1fn": "FLOAT4E2M1", "float8_e8m0fnu": "FLOAT8E8M0", "str_": "STRING", "object": "STRING"}


def as_dtype(value: DTypeLike) -> DataType:
    """The element type that `value` stands for. ValueError when it stands for none."""
    if isinstance(value, DataType):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return DataType(int(value))
        except ValueError:
            raise InvalidArgumentError(f"dtype {value!r} is not the number of an element type") from None
    if isinstance(value, str):
        name = value
    elif value is float or value is int or value is bool:
        name = ""  # of no certain size
    elif isinstance(value, type):
        name = value.__name__
    else:
        name = getattr(value, "name", None) or str(value)
    if name in _NUMPY_NAMES:
        return DataType[_NUMPY_NAMES[name]]
    found = _native.dtype_from_name(name) if name.isascii() and name else None
    if found is None and name in DataType.__members__:
        found = DataType[name]
    if found is None:
        raise InvalidArgumentError(f"dtype {value!r} is no element type; expected for instance f32, f16, bf16, numpy.float16, ml_dtypes.bfloat16 or "
                                   "onnx_ir.DataType.FLOAT16")
    return found


def optional_dtype(value: DTypeLike | None) -> DataType | None:
    return None if value is None else as_dtype(value)

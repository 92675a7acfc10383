"""apply_weights: models that were built without weights get them, by their names in the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mobius import _arguments, _native
from mobius._dtypes import DataType
from mobius._errors import InvalidArgumentError
from mobius._model import Model

_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)
_INTEGERS = (DataType.BOOL, *(DataType[f"{sign}INT{bits}"] for sign in ("", "U") for bits in (8, 16, 32, 64)))


def apply_weights(model: Model, state_dict: Mapping[str, Any]) -> None:
    """Gives a model that was built without weights its own, by their names in the checkpoint.

        package = mobius.build("Qwen/Qwen2.5-0.5B", load_weights=False)
        mobius.apply_weights(package["model"], {"model.norm.weight": array, ...})

    Arrays are numpy's (or what numpy takes) and are referred to, not copied. What is done to a checkpoint as a whole when `build` reads it, is
    not done here: a weight that a checkpoint may leave out has to be given. ValueError: a name that the model has no parameter for,
    another shape, integers for a float parameter or the other way round, or a weight that the model has already. Then nothing has changed.
    """
    if not isinstance(model, Model):
        raise _arguments.refuse("model", model, "a mobius.Model (a package has apply_weights itself)")
    bind_weights(model, checked_weights(model, state_dict))


def checked_weights(model: Model, state_dict: Mapping[str, Any]) -> dict[str, _native.TensorData]:
    """The arrays as tensors, when all of them suit."""
    _arguments.mapping("state_dict", state_dict, "a dict of arrays by name")
    rows = model._native.parameters()
    parameters = {name: (dims, dtype) for names, dims, dtype in rows for name in names}
    unknown = [name for name in state_dict if name not in parameters]
    taken = [name for name in unknown if model._native.has_value(name)]
    if taken:
        raise InvalidArgumentError(f"{_arguments.one_line(taken)}: the model has a value for it already, and takes each weight once (clones share them)")
    if unknown:
        raise InvalidArgumentError(f"the model has no parameter {_arguments.one_line(unknown)}")
    arrays = {name: _tensor_of(name, value) for name, value in state_dict.items()}
    wrong = []
    for name, tensor in arrays.items():
        dims, dtype = parameters[name]
        allowed = _FLOATS if dtype in _FLOATS else _INTEGERS
        if list(tensor.dims) != list(dims):
            wrong.append(f"{name} is {list(tensor.dims)}, expected {list(dims)}")
        elif tensor.dtype not in allowed:
            wrong.append(f"{name} is {tensor.dtype}, expected {_names(allowed)}")
    if wrong:
        raise InvalidArgumentError("; ".join(wrong[:5]) + (f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""))
    for names, _, dtype in rows:
        _check_equal([name for name in names if name in arrays], arrays, dtype)
    return arrays


def _check_equal(names: list[str], arrays: dict[str, _native.TensorData], dtype: DataType) -> None:
    """Of a weight with several names, such as a tied head, checkpoints hold one or all: which of two different ones is meant, nobody can tell."""
    import numpy as np

    from mobius._arrays import numpy_dtype, to_numpy

    if len(names) < 2:
        return
    first, *others = (to_numpy(arrays[name]).astype(numpy_dtype(dtype), copy=False) for name in names)
    for name, other in zip(names[1:], others):
        if not np.array_equal(first, other, equal_nan=dtype in _FLOATS):
            raise InvalidArgumentError(f"{name} differs from {names[0]}, although they are one weight of the model: give one of them")


def _tensor_of(name: str, value: Any) -> _native.TensorData:
    from mobius._arrays import from_numpy

    if value is None or isinstance(value, (str, bytes, Mapping)):
        raise _arguments.refuse(name, value, "an array")
    if getattr(value, "mask", False) is not False:  # numpy's masked arrays
        raise _arguments.refuse(name, value, "an array without a mask")
    try:
        return from_numpy(value)
    except (TypeError, ValueError) as reason:
        raise type(reason)(f"{name} is {_arguments.found(value)}, expected an array of numbers: {reason}") from None


def bind_weights(model: Model, arrays: dict[str, _native.TensorData]) -> None:
    model._native.bind(arrays)
    model._graph = None


def _names(dtypes: tuple) -> str:
    return ", ".join(map(str, dtypes[:-1])) + f" or {dtypes[-1]}"

"""build_graph: a model from a function, without a task around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mobius import _log, _native  # noqa: F401
from mobius._context import get_build_dtype
from mobius._dtypes import DTypeLike, as_dtype
from mobius._model import Model
from mobius.nn._module import Module
from mobius.nn._op import OpBuilder


def build_graph(function: Module | Callable, inputs: Mapping[str, tuple[DTypeLike, Sequence[int | str | None]]], outputs: Sequence[str] = ("output",), *,
                dtype: DTypeLike | None = None, opset: int = 24) -> Model:
    """A model with these inputs and outputs whose nodes function(op, *inputs) writes.

        model = build_graph(lambda op, x: op.Relu(x), {"x": ("f32", ["batch", 64])})

    `dtype`: what it computes in; None: that of the build context. The model is not optimised: optimize_model does that.
    """
    workshop = _native.Workshop(get_build_dtype() if dtype is None else as_dtype(dtype), opset)
    if isinstance(function, Module):
        function.name_parameters()
    tensors = [workshop.input(name, as_dtype(kind), list(shape)) for name, (kind, shape) in inputs.items()]
    results = function(OpBuilder(workshop), *tensors)
    results = results if isinstance(results, (tuple, list)) else (results,)
    if len(results) != len(outputs):
        raise ValueError(f"{len(results)} results were returned for {len(outputs)} outputs ({', '.join(outputs)})")
    for name, result in zip(outputs, results):
        workshop.output(name, result)
    return Model(workshop.finish())

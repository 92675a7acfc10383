"""build_graph: a model from a function, without a task around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mobius import _arguments, _log, _native  # noqa: F401
from mobius._context import get_build_dtype
from mobius._dtypes import DataType, DTypeLike, as_dtype
from mobius._model import Model
from mobius.nn._module import Module
from mobius.nn._op import OpBuilder


def build_graph(function: Module | Callable, inputs: Mapping[str, tuple[DTypeLike, Sequence[int | str | None]]], outputs: Sequence[str] = ("output",), *,
                dtype: DTypeLike | None = None, opset: int = 24) -> Model:
    """A model with these inputs and outputs whose nodes function(op, *inputs) writes.

        model = build_graph(lambda op, x: op.Relu(x), {"x": ("f32", ["batch", 64])})

    `dtype`: what it computes in; None: that of the build context. The model is not optimised: optimize_model does that.
    """
    workshop = _native.Workshop(get_build_dtype() if dtype is None else as_dtype(dtype), _arguments.integer("opset", opset, 1))
    if isinstance(function, Module):
        function.name_parameters()
    elif not callable(function) or isinstance(function, type):
        raise _arguments.refuse("function", function, "a mobius.nn.Module or a function of (op, *inputs)")
    _check_names([*_arguments.mapping("inputs", inputs, _INPUTS), *outputs])
    tensors = [workshop.input(name, *_type_of(name, kind)) for name, kind in _arguments.mapping("inputs", inputs, _INPUTS).items()]
    results = function(OpBuilder(workshop), *tensors)
    results = results if isinstance(results, (tuple, list)) else (results,)
    if len(results) != len(outputs):
        raise ValueError(f"{len(results)} results were returned for {len(outputs)} outputs ({', '.join(outputs)})")
    for name, result in zip(outputs, results):
        if not isinstance(result, _native.Tensor):
            raise _arguments.refuse(f"the result for {name}", result, "a tensor of the graph")
        workshop.output(name, result)
    return Model(workshop.finish())


def _check_names(names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        if not _arguments.text("a name of an input or output", name):
            raise ValueError("an input or output has an empty name")
        if name in names[:i]:
            raise ValueError(f"{name} is the name of two inputs or outputs")


_INPUTS = 'a dict of (dtype, shape) by name, as {"x": ("f32", ["batch", 64])}'


def _type_of(name: str, kind: Any) -> tuple[DataType, list]:
    if not isinstance(kind, (tuple, list)) or len(kind) != 2:
        raise _arguments.refuse(f"input {name}", kind, "(dtype, shape)")
    return as_dtype(kind[0]), dims_of(f"the shape of input {name}", kind[1])


def dims_of(name: str, shape: Any) -> list[int | str | None]:
    """A shape as the library takes it."""
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
        raise _arguments.refuse(name, shape, "a list of numbers, names or None")
    expected = "a number of elements, a name or None"
    return [d if d is None else _arguments.text(name, d) if isinstance(d, str) else _arguments.integer(f"{name}[{i}]", d, 0, expected) for i, d in enumerate(shape)]

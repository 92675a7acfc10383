"""op: writes operators into the graph that is being built.

    y = op.MatMul(x, self.weight)                       # x: a tensor; parameters, numbers, lists and arrays may stand as operands too
    y = op.Softmax(y, axis=-1)                          # attributes by name
    q, k = op.Split(y, num_outputs=2, axis=-1)
    y = op.FastGelu(y)                                  # com.microsoft's operators as well; op.ms.X where both have the name
"""

from __future__ import annotations

import sys
from typing import Any

from mobius import _arguments, _log, _native  # noqa: F401
from mobius._dtypes import DataType, as_dtype
from mobius._errors import Error, InvalidArgumentError
from mobius.nn import _operators
from mobius.nn._module import Parameter
from mobius.nn._operators import MICROSOFT, Operator

Tensor = _native.Tensor
_INT64, _INT32 = DataType.INT64, DataType.INT32
_MOST_RESULTS = 2**16
_GRAPH = 5  # AttributeProto.AttributeType
_DTYPE_OF_KIND = {"i": _INT64, "n": _INT32, "b": DataType.BOOL}


class OpBuilder:
    """Operators as methods: op.MatMul(x, w). Shapes and dtypes are inferred at once, so a mistake surfaces at the line that made it."""

    __slots__ = ("_workshop", "_domain")

    def __init__(self, workshop: _native.Workshop, domain: str | None = None) -> None:
        self._workshop = workshop
        self._domain = domain

    def __getattr__(self, name: str) -> _Operation:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Operation(self._workshop, _operators.find(name, self._domain))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_operators.names()]

    @property
    def ms(self) -> OpBuilder:
        """Only the operators of com.microsoft: op.ms.Attention is not op.Attention."""
        return OpBuilder(self._workshop, MICROSOFT)

    @property
    def dtype(self) -> DataType:
        """The float type that the graph computes in."""
        return self._workshop.dtype

    def constant(self, value: Any, dtype: Any = None) -> Tensor:
        """A number, list or array as a tensor. `dtype`: None: int64 for integers, op.dtype for floats, an array's own."""
        return _constant(self._workshop, value, None if dtype is None else as_dtype(dtype))

    def parameter(self, parameter: Parameter) -> Tensor:
        """A parameter as a tensor of this graph."""
        return parameter.tensor(self._workshop)

    def activation(self, name: str, x: Tensor) -> Tensor:
        """An activation by its Hugging Face name: silu, gelu, gelu_new, relu2, ... NotImplementedError for others, with the known names."""
        return self._workshop.activation(_arguments.text("name", name, "the name of an activation"), x)


class _Operation:
    """One operator of one graph."""

    __slots__ = ("_workshop", "_operator")

    def __init__(self, workshop: _native.Workshop, operator: Operator) -> None:
        self._workshop = workshop
        self._operator = operator

    def __call__(self, *inputs: Any, _outputs: int | None = None, _domain: str | None = None, **named: Any) -> Any:
        operator = self._operator if _domain is None else _operators.find(self._operator.name, _domain)
        bodies = self._workshop.bodies
        try:
            return _apply(self._workshop, operator, inputs, named, _outputs)
        except Error as error:
            if hasattr(error, "line"):  # of an operator inside a body
                raise
            line = _user_line()
            told = type(error)(f"{error} ({line})")
            told.line = line  # type: ignore[attr-defined]
            raise told from None
        finally:
            self._workshop.drop_bodies(bodies)  # of a node that was not made

    def __repr__(self) -> str:
        o = self._operator
        return f"op.{o.name}({', '.join([*(p.name + p.mark for p in o.inputs), *(f'{a}=' for a in o.attributes)])})"


def _user_line() -> str:
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "mobius":
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _apply(workshop: _native.Workshop, operator: Operator, inputs: tuple, named: dict, outputs: int | None) -> Any:
    operands = _operands(operator, inputs, named)
    ports = [_port_at(operator, i) for i in range(len(operands))]
    tensors = [_as_tensor(workshop, operand) for operand in operands]
    dtypes = {port.type: tensor.dtype for port, tensor in zip(ports, tensors) if isinstance(tensor, Tensor)}
    for i, (operand, port) in enumerate(zip(operands, ports)):
        if operand is not None and tensors[i] is None:
            tensors[i] = _constant(workshop, operand, _dtype_for(workshop, port, dtypes), port.kind != "f")
    if any(operator.attributes.get(name) == _GRAPH for name in named):
        named = _with_bodies(workshop, operator, tensors, named)
    attributes = {name: (_attribute(operator, name, value), operator.attributes.get(name, 0)) for name, value in named.items() if value is not None}
    count = _arguments.integer("_outputs", _count(operator, operands, named) if outputs is None else outputs, 0, "a number of results")
    if count > _MOST_RESULTS:
        raise InvalidArgumentError(f"{operator.name} would have {count} results, expected at most {_MOST_RESULTS}")
    result_ports = [operator.outputs[min(i, len(operator.outputs) - 1)] for i in range(count)] if operator.outputs else []
    known = [_result_dtype(operator, port, dtypes, attributes) for port in result_ports]
    results = workshop.apply(operator.domain, operator.name, tensors, attributes, count, known)
    return results[0] if len(results) == 1 else tuple(results)


def _operands(operator: Operator, inputs: tuple, named: dict) -> list:
    """Operands in the operator's order; those that are given by name leave `named`."""
    place = {port.name: i for i, port in enumerate(operator.inputs)}
    operands = list(inputs)
    variadic = bool(operator.inputs) and operator.inputs[-1].mark == "*"
    if len(operands) > len(operator.inputs) and not variadic:
        raise TypeError(f"{operator.name} takes {len(operator.inputs)} operands, {len(operands)} were given; attributes are given by name")
    for name in [n for n in named if n in place and n not in operator.attributes]:
        at = place[name]
        if at < len(inputs) and inputs[at] is not None:
            raise TypeError(f"{operator.name}: operand {name} is given twice")
        operands.extend([None] * (at + 1 - len(operands)))
        operands[at] = named.pop(name)
    unknown = [name for name in named if name not in operator.attributes]
    if unknown:
        raise TypeError(f"{operator.name} has no attribute or operand {', '.join(unknown)}; it has {', '.join([*place, *operator.attributes]) or 'none'}")
    missing = [port.name for i, port in enumerate(operator.inputs) if not port.mark and (i >= len(operands) or operands[i] is None)]
    missing += [name for name in operator.required if named.get(name) is None]
    if missing:
        raise TypeError(f"{operator.name} needs {', '.join(missing)}")
    return operands


def _port_at(operator: Operator, i: int) -> _operators.Port:
    return operator.inputs[min(i, len(operator.inputs) - 1)]


def _as_tensor(workshop: _native.Workshop, operand: Any) -> Tensor | None:
    if isinstance(operand, Tensor):
        return operand
    if isinstance(operand, Parameter):
        return operand.tensor(workshop)
    if operand is not None and not isinstance(operand, (bool, int, float, list, tuple)) and not hasattr(operand, "__array__"):
        raise TypeError(f"{type(operand).__name__} can't be an operand; expected a tensor, a parameter, a number, a list or an array")
    return None


def _dtype_for(workshop: _native.Workshop, port: _operators.Port, dtypes: dict) -> DataType | None:
    if port.type in dtypes:
        return dtypes[port.type]
    return workshop.dtype if port.kind == "f" else _DTYPE_OF_KIND.get(port.kind)


def _constant(workshop: _native.Workshop, value: Any, dtype: DataType | None, is_integer: bool = False) -> Tensor:
    if isinstance(value, (bool, int, float)):
        if dtype is None:
            dtype = DataType.BOOL if isinstance(value, bool) else _INT64 if isinstance(value, int) else workshop.dtype
        if abs(value) <= 2**53 or isinstance(value, float):
            return workshop.scalar(dtype, float(value))
    if isinstance(value, (list, tuple)) and dtype in (None, _INT64) and value and all(type(item) is int for item in value):
        return workshop.integers(list(value))
    import numpy as np

    from mobius._arrays import from_numpy, numpy_dtype

    array = np.asarray(value)
    if not hasattr(value, "__array__") or (array.ndim == 0 and dtype is not None):  # numbers and lists take the type that is needed; arrays keep their own
        if dtype is None:
            dtype = workshop.dtype if array.dtype.kind == "f" else None
        if dtype is not None:
            try:
                array = array.astype(numpy_dtype(dtype))
            except OverflowError:
                raise InvalidArgumentError(f"{_arguments.found(value)} is too large for {dtype}") from None
    return workshop.constant(from_numpy(array.copy(), dtype if dtype is not None and not hasattr(value, "__array__") else None))


def _attribute(operator: Operator, name: str, value: Any) -> Any:
    if name in ("to", "dtype", "output_dtype") and operator.attributes.get(name) == 2 and not isinstance(value, int):
        return int(as_dtype(value))
    if operator.attributes.get(name) == 4:  # a tensor
        from mobius._arrays import from_numpy

        return value if isinstance(value, _native.TensorData) else from_numpy(value)
    if isinstance(value, bool):
        return int(value)
    return value.tolist() if hasattr(value, "tolist") else value


def _with_bodies(workshop: _native.Workshop, operator: Operator, operands: list, named: dict) -> dict:
    """Functions in the place of graphs become bodies; each is called once, with tensors for what the operator hands to it."""
    kinds: list = [(t.dtype, None if t.shape is None else list(t.shape)) for t in operands if t is not None]
    if operator.name == "Loop":
        kinds = [(_INT64, []), (DataType.BOOL, []), *((t.dtype, None if t.shape is None else list(t.shape)) for t in operands[2:])]
    elif operator.name == "Scan":
        first = len(kinds) - int(named.get("num_scan_inputs") or 0)
        axes = list(named.get("scan_input_axes") or [0] * (len(kinds) - first))
        kinds[first:] = [(dtype, None if shape is None else [d for i, d in enumerate(shape) if i != axis % len(shape)])
                         for (dtype, shape), axis in zip(kinds[first:], axes)]
    elif operator.name == "If":
        kinds = []
    made = dict(named)
    for name, value in named.items():
        if operator.attributes.get(name) == _GRAPH and callable(value):
            made[name] = workshop.body(name, kinds, value)
    return made


def _count(operator: Operator, operands: list, named: dict) -> int:
    """How many results there are: those that are always there, or as many as the operands tell."""
    for body in named.values():
        if isinstance(body, _native.Body):
            return body.outputs - (operator.name == "Loop")
    if not operator.outputs or operator.outputs[-1].mark != "*":
        return max(1, sum(port.mark == "" for port in operator.outputs)) if operator.outputs else 0
    if isinstance(named.get("num_outputs"), int):
        return named["num_outputs"]
    if operator.name == "Split" and len(operands) > 1 and operands[1] is not None:
        sizes = operands[1].contents() if isinstance(operands[1], Tensor) else operands[1]
        if sizes is not None:
            return len(sizes)
    raise TypeError(f"{operator.name}: the number of results can't be told from its operands; give _outputs=")


def _result_dtype(operator: Operator, port: _operators.Port, dtypes: dict, attributes: dict) -> DataType | None:
    """For operators without inference: the type that the schema says, as far as it does."""
    if port.type in dtypes:
        return dtypes[port.type]
    for name in ("to", "dtype"):
        if name in attributes:
            return DataType(attributes[name][0])
    return _DTYPE_OF_KIND.get(port.kind)


def _binary(name: str, swapped: bool = False):
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, (Tensor, Parameter, bool, int, float, list, tuple)) and not hasattr(other, "__array__"):
            return NotImplemented
        operation = _Operation(self.workshop, _operators.find(name, ""))
        return operation(other, self) if swapped else operation(self, other)

    return method


for _symbol, _name in (("add", "Add"), ("sub", "Sub"), ("mul", "Mul"), ("truediv", "Div"), ("matmul", "MatMul"), ("pow", "Pow")):
    setattr(Tensor, f"__{_symbol}__", _binary(_name))
    setattr(Tensor, f"__r{_symbol}__", _binary(_name, swapped=True))
Tensor.__neg__ = lambda self: _Operation(self.workshop, _operators.find("Neg", ""))(self)
Tensor.__array_ufunc__ = None  # an array on the left asks the tensor
Tensor.__repr__ = lambda self: f"<Tensor {self.name}: {self.dtype}{'' if self.shape is None else list(self.shape)}>"
Tensor.__bool__ = lambda self: _no_truth(self)


Tensor.__doc__ = """A value of the graph that is being built: name, dtype, shape; + - * / @ ** and negation write operators."""


def _typed(self: Tensor, dtype: Any, shape: Any) -> Tensor:
    """The same tensor, of a type that inference could not know."""
    self.set_type(as_dtype(dtype), list(shape))
    return self


Tensor.typed = _typed


def _no_truth(tensor: Tensor) -> bool:
    raise TypeError(f"{tensor!r} has no value while the graph is built; use op.Where or op.If")

"""Module and Parameter: the named parts of a model and their weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mobius import _arguments, _log, _native  # noqa: F401
from mobius._dtypes import DataType, DTypeLike, optional_dtype
from mobius._errors import InvalidArgumentError


class Parameter:
    """A weight. Its name in the checkpoint is the path of attributes that leads to it.

        self.weight = Parameter([64, 32])                  # found in the checkpoint, in the dtype that is built in
        self.scale = Parameter(data=numpy.ones(64, "f4"))  # given
    """

    def __init__(self, shape: Iterable[int] | None = None, dtype: DTypeLike | None = None, *, data: Any = None, name: str | None = None) -> None:
        if (shape is None) == (data is None):
            raise InvalidArgumentError("a parameter has either a shape or data")
        self._data = None
        if data is not None:
            from mobius._arrays import from_numpy

            self._data = from_numpy(data, optional_dtype(dtype))
        self.shape: list[int] = list(self._data.dims) if self._data is not None else _sizes(shape)
        self.dtype: DataType | None = self._data.dtype if self._data is not None else optional_dtype(dtype)
        self._given_name = name
        self.names: list[str] = [name] if name else []

    @property
    def name(self) -> str:
        """The first of its names in the checkpoint; "" before it is part of a module that is built."""
        return self.names[0] if self.names else ""

    def tensor(self, workshop: _native.Workshop) -> _native.Tensor:
        """The parameter as a tensor of a graph; what op does with it."""
        if not self.names:
            raise InvalidArgumentError("a parameter is used that no attribute of the module leads to: assign it in __init__")
        if self._data is not None:
            return workshop.parameter_with_data(self.name, self._data)
        return workshop.parameter(self.name, workshop.dtype if self.dtype is None else self.dtype, self.shape, self.names[1:])

    def __repr__(self) -> str:
        return f"Parameter({self.name or '?'}, {self.shape}, {self.dtype or 'the dtype that is built in'})"


def _sizes(shape: Any) -> list[int]:
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
        raise _arguments.refuse("the shape of a parameter", shape, "a list of sizes")
    return [_arguments.integer(f"size {i} of a parameter", d, 0) for i, d in enumerate(shape)]


class Module:
    """A part of a model: subclasses make their parameters and parts in __init__, and write operators in forward(op, ...).

        class MLP(Module):
            def __init__(self, hidden, inner):
                super().__init__()
                self.up_proj, self.down_proj = Linear(hidden, inner), Linear(inner, hidden)

            def forward(self, op, x):
                return self.down_proj(op, op.Relu(self.up_proj(op, x)))

    Called as module(op, x); the nodes it writes are named after it.
    """

    def __init__(self) -> None:
        self._children: dict[str, Module | Parameter]
        object.__setattr__(self, "_children", {})
        object.__setattr__(self, "_path", "")

    def __setattr__(self, name: str, value: Any) -> None:
        if "_children" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.__init__ has to call super().__init__() before it assigns {name}")
        if isinstance(value, (Module, Parameter)):
            self._children[name] = value
        else:
            self._children.pop(name, None)
            if isinstance(value, (list, tuple)) and any(isinstance(item, (Module, Parameter)) for item in value):
                raise TypeError(f"{type(self).__name__}.{name}: modules in a list have no names; use ModuleList")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._children.pop(name, None)
        object.__delattr__(self, name)

    def forward(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Writes the module's operators, and gives its results. Subclasses have one."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(op, ...)")

    def __call__(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        workshop = op._workshop
        outer = workshop.scope
        workshop.scope = self._path
        try:
            return self.forward(op, *args, **kwargs)
        finally:
            workshop.scope = outer

    def preprocess_weights(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """The checkpoint's arrays by name as this module's: renamed, split, joined. Here: as they are."""
        return state_dict

    preprocess_weights.is_default = True  # type: ignore[attr-defined]

    # ── the tree ──

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The parts of this module, each with its attribute's name."""
        for name, child in self._children.items():
            if isinstance(child, Module):
                yield name, child

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each with its path."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """All parameters, each with its path; one that two paths lead to (tied weights) comes twice."""
        for path, module in self.named_modules(prefix):
            for name, child in module._children.items():
                if isinstance(child, Parameter):
                    yield (f"{path}.{name}" if path else name), child

    def parameters(self) -> list[Parameter]:
        """All parameters, each once."""
        return list(dict.fromkeys(p for _, p in self.named_parameters()))

    def name_parameters(self, prefix: str = "") -> None:
        """Gives modules and parameters the names that their paths say; done by every build."""
        for path, module in self.named_modules(prefix):
            object.__setattr__(module, "_path", path)
        found: dict[Parameter, list[str]] = {}
        for path, parameter in self.named_parameters(prefix):
            found.setdefault(parameter, [] if parameter._given_name is None else [parameter._given_name]).append(path)
        for parameter, names in found.items():
            parameter.names = names if parameter._given_name is None else names[:1]

    def __repr__(self) -> str:
        inner = [f"  {name}: {line}" for name, child in self._children.items() for line in [repr(child).replace("\n", "\n  ")]]
        return f"{type(self).__name__}({self.extra_repr()})" if not inner else "\n".join([f"{type(self).__name__}({self.extra_repr()}", *inner]) + ")"

    def extra_repr(self) -> str:
        """What repr says of this module itself: its sizes."""
        return ""


class ModuleList(Module):
    """Modules by number: layers.0, layers.1, ..."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        """Adds a module under the next number."""
        setattr(self, str(len(self._children)), module)
        return self

    def __getitem__(self, index: int | slice) -> Any:
        return list(self._children.values())[index]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(range(len(self))[index]), module)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._children.values()))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._children)


class Sequential(ModuleList):
    """Modules one after the other: each is called with what the one before it returns."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, op: Any, x: Any) -> Any:
        for module in self:
            x = module(op, x)
        return x


def state_names(module: Module) -> Mapping[str, list[int]]:
    """The names that a checkpoint of this module has, with their shapes."""
    return {name: parameter.shape for name, parameter in module.named_parameters() if parameter._data is None}

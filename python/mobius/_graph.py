"""A model's graph, to look at: a copy that doesn't change with the model."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping
from typing import Any

from mobius import _native


class Value(namedtuple("Value", ["name", "dtype", "shape"])):
    """An input, output or result. `shape` holds numbers, texts (symbols) and None (unknown); None as a whole: unknown rank."""

    __slots__ = ()


class Node(namedtuple("Node", ["name", "op_type", "domain", "inputs", "outputs", "attributes"])):
    """An operator: the names of its inputs ("" for one that is left out), its results, its attributes."""

    __slots__ = ()


class Initializers(Mapping):
    """Weights and constants by name, as numpy arrays that are made when asked for."""

    def __init__(self, tensors: dict[str, _native.TensorData]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> Any:
        from mobius._arrays import to_numpy

        return to_numpy(self._tensors[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def type_of(self, name: str) -> Value:
        """Name, dtype and shape, without the elements."""
        tensor = self._tensors[name]
        return Value(name, tensor.dtype, tuple(tensor.dims))


class Graph:
    """Nodes in the order of execution (iterate over the graph), inputs, outputs, initializers."""

    def __init__(self, parts: dict) -> None:
        self.name: str = parts["name"]
        self.inputs = [Value(*v) for v in parts["inputs"]]
        self.outputs = [Value(*v) for v in parts["outputs"]]
        self.initializers = Initializers(parts["initializers"])
        self.nodes = [_node(*n) for n in parts["nodes"]]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def num_nodes(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.nodes)} nodes, {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


def _node(name: str, op_type: str, domain: str, inputs: list, outputs: list, attributes: dict) -> Node:
    return Node(name, op_type, domain, inputs, [None if v is None else Value(*v) for v in outputs], {k: _attribute(v) for k, v in attributes.items()})


def _attribute(value: Any) -> Any:
    if isinstance(value, _native.TensorData):
        from mobius._arrays import to_numpy

        return to_numpy(value)
    if isinstance(value, dict):
        return Graph(value)
    if isinstance(value, list) and value and isinstance(value[0], (dict, _native.TensorData)):
        return [_attribute(item) for item in value]
    return value

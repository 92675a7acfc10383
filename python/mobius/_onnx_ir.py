"""onnx_ir.Model and back. Graphs cross as messages without weights; weights are passed beside them, as views."""

from __future__ import annotations

import os
from collections.abc import Iterator

import onnx
import onnx_ir as ir

from mobius import _native
from mobius._arrays import from_numpy, to_numpy
from mobius._errors import InvalidArgumentError

_PLACE = "mobius"  # the file name that stands for "beside the message"; the offset is a place in the list
_LEAST = 256  # bytes; smaller tensors travel in the message


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.initializers.values()
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _values(attribute.as_graph())
            elif attribute.type == ir.AttributeType.GRAPHS:
                for inner in attribute.as_graphs():
                    yield from _values(inner)


def _tensor(tensor: ir.TensorProtocol) -> _native.TensorData:
    if isinstance(tensor, ir.ExternalTensor):
        offset, length = tensor.offset or 0, tensor.nbytes if tensor.length is None else tensor.length
        if offset < 0 or length != tensor.nbytes:
            raise InvalidArgumentError(f"external data of {tensor.name} is {length} bytes at {offset}, expected {tensor.nbytes} bytes at 0 or more")
        return _native.TensorData.mapped(os.fsencode(tensor.path), offset, int(tensor.dtype), [int(d) for d in tensor.shape])
    return from_numpy(tensor.numpy(), None if tensor.dtype == ir.DataType.STRING else _native_dtype(tensor.dtype))


def _native_dtype(dtype: ir.DataType):
    from mobius._dtypes import as_dtype

    return as_dtype(int(dtype))


def from_onnx_ir(model: ir.Model) -> _native.Model:
    copy = model.clone()
    weights = []
    for value in _values(copy.graph):
        tensor = value.const_value
        if tensor is None and value.is_initializer():
            raise InvalidArgumentError(f"initializer {value.name} of the onnx_ir.Model has no const_value: it waits for its weights")
        if tensor is None or tensor.dtype == ir.DataType.STRING or (tensor.nbytes < _LEAST and not isinstance(tensor, ir.ExternalTensor)):
            continue
        value.const_value = ir.ExternalTensor(_PLACE, len(weights), tensor.nbytes, tensor.dtype, shape=tensor.shape, name=value.name or "", base_dir="")
        weights.append(_tensor(tensor))
    return _native.Model.from_parts(ir.serde.serialize_model(copy).SerializeToString(), weights)


def to_onnx_ir(native: _native.Model) -> ir.Model:
    message, weights = native.to_parts(_LEAST)
    model = ir.serde.deserialize_model(onnx.ModelProto.FromString(message))
    for value in _values(model.graph):
        tensor = value.const_value
        if not isinstance(tensor, ir.ExternalTensor) or tensor.location != _PLACE:
            continue
        weight = weights[tensor.offset]
        if not weight.is_bound:  # built without weights
            value.const_value = None
            continue
        value.const_value = ir.Tensor(to_numpy(weight), dtype=tensor.dtype, name=value.name)
    return model


def replace(old: ir.Model, new: ir.Model) -> None:
    """Makes `old` what `new` is; the graph and its inputs stay the objects that they are."""
    graph, source = old.graph, new.graph
    inputs = {value.name: value for value in graph.inputs}
    graph.outputs.clear()
    graph.remove(list(graph), safe=False)
    graph.initializers.clear()
    new_inputs, new_outputs = list(source.inputs), list(source.outputs)
    initializers = list(source.initializers.values())
    nodes = list(source)
    source.outputs.clear()
    source.inputs.clear()
    source.initializers.clear()
    source.remove(nodes)
    graph.inputs.clear()
    for value in new_inputs:
        kept = inputs.get(value.name)
        if kept is None:
            graph.inputs.append(value)
            continue
        kept.shape, kept.type = value.shape, value.type
        ir.convenience.replace_all_uses_with(value, kept)
        new_outputs = [kept if output is value else output for output in new_outputs]
        graph.inputs.append(kept)
    kept_by_name = {value.name: value for value in graph.inputs}
    for value in initializers:
        owner = kept_by_name.get(value.name, value)  # an input with a default
        owner.const_value = value.const_value
        graph.register_initializer(owner)
    graph.extend(nodes)
    graph.outputs.extend(new_outputs)
    graph.opset_imports.clear()
    graph.opset_imports.update(source.opset_imports)
    old.functions.clear()
    old.functions.update(new.functions)
    old.metadata_props.clear()
    old.metadata_props.update(new.metadata_props)
    old.ir_version, old.producer_name, old.producer_version = new.ir_version, new.producer_name, new.producer_version

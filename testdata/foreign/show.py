"""Prints a graph, a node a line, with its constants where they are used: how the listings of README.md were made.

usage: python show.py FILE.onnx [--to VALUE ...] [--until VALUE ...] [--count]      needs onnx and numpy

--to: only the nodes that VALUE is computed from, --until: and of these only the nodes after VALUE. Values are numbered
in order (%7), but for the graph's inputs and outputs and its weights.
"""
import argparse
import collections

import numpy as np
import onnx
from onnx import numpy_helper


def number_text(value, kind):
    if kind != "f":
        return {2**63 - 1: "MAX", -(2**63): "MIN", 1 - 2**63: "MIN"}.get(value, str(value))
    for name, limit in (("inf", np.inf), ("-inf", -np.inf), ("f32min", np.finfo(np.float32).min), ("f16min", np.finfo(np.float16).min)):
        if value == limit:
            return name
    text = f"{value:.6g}"
    return text if "." in text or "e" in text else text + ".0"


def constant_text(array):
    """A scalar, or a vector in brackets; no word before f32 and i64, h before f16, the type before others."""
    kind = {"float32": "", "int64": "", "float16": "h"}.get(str(array.dtype), str(array.dtype))
    show = [number_text(x, array.dtype.kind) for x in array.ravel().tolist()[:8]]
    return kind + (show[0] if array.ndim == 0 else "[" + ", ".join(show) + ("…" if array.size > 8 else "") + "]")


def attribute_text(attribute):
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        value = constant_text(numpy_helper.to_array(value))
    elif isinstance(value, bytes):
        value = value.decode()
    elif isinstance(value, float):
        value = f"{value:.6g}"
    elif attribute.name == "to":
        value = onnx.TensorProto.DataType.Name(value).lower()
    return f"{attribute.name}={list(value) if hasattr(value, '__iter__') and not isinstance(value, str) else value}"


class Listing:
    def __init__(self, graph):
        self.graph, self.names = graph, {}
        self.fixed = {v.name for v in [*graph.input, *graph.output]}
        for tensor in graph.initializer:
            external = tensor.data_location == onnx.TensorProto.EXTERNAL
            array = None if external else numpy_helper.to_array(tensor)
            weight = external or array.size > 8 or array.ndim and array.dtype.kind == "f" and array.size > 1
            self.names[tensor.name] = f"{tensor.name}[{'x'.join(map(str, tensor.dims))}]" if weight else constant_text(array)
        for node in graph.node:
            if node.op_type == "Constant":
                self.names[node.output[0]] = constant_text(numpy_helper.to_array(node.attribute[0].t))

    def nodes(self, to, until):
        producers = {o: n for n in self.graph.node for o in n.output}
        wanted, todo = set(), list(to)
        while todo:
            name = todo.pop()
            if name in producers and name not in wanted and name not in until:
                wanted |= set(producers[name].output)
                todo += producers[name].input
        return [n for n in self.graph.node if n.op_type != "Constant" and (not to or wanted & set(n.output))]

    def name(self, value):
        if not value:
            return "_"
        if value in self.fixed:
            return value
        return self.names.setdefault(value, f"%{sum(n.startswith('%') for n in self.names.values()) + 1}")

    def line(self, node):
        inputs = ", ".join(self.name(i) for i in node.input)
        attributes = " ".join(attribute_text(a) for a in node.attribute)
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        return f"{', '.join(self.name(o) for o in node.output if o)} = {operator}({inputs}) {attributes}".rstrip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--to", nargs="*", default=[])
    parser.add_argument("--until", nargs="*", default=[])
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    graph = onnx.load(options.file, load_external_data=False).graph
    if options.count:
        return print(", ".join(f"{op} {n}" for op, n in collections.Counter(n.op_type for n in graph.node).most_common()))
    listing = Listing(graph)
    try:
        for node in listing.nodes(options.to, options.until):
            print(listing.line(node))
    except BrokenPipeError:  # of `show.py FILE | head`
        pass


if __name__ == "__main__":
    main()

"""Writes the .onnx files of this folder with the onnx package (1.23): python make_fixtures.py"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent
NAMES = {value: name for name, value in TensorProto.DataType.items() if 0 < value <= 26}

# Per type: dims, the bytes of raw_data, and (field, values) of the typed representation.
TENSORS = {
    "FLOAT": ([2], np.array([1.5, -2], "<f4").tobytes(), ("float_data", [1.5, -2])),
    "UINT8": ([2], bytes([1, 255]), ("int32_data", [1, 255])),
    "INT8": ([2], bytes([1, 128]), ("int32_data", [1, -128])),
    "UINT16": ([1], bytes([255, 255]), ("int32_data", [65535])),
    "INT16": ([1], bytes([0, 128]), ("int32_data", [-32768])),
    "INT32": ([1], np.array([-7], "<i4").tobytes(), ("int32_data", [-7])),
    "INT64": ([2, 1], np.array([-7, 2**62], "<i8").tobytes(), ("int64_data", [-7, 2**62])),
    "BOOL": ([2], bytes([0, 1]), ("int32_data", [0, 1])),
    "FLOAT16": ([1], bytes([0, 62]), ("int32_data", [0x3E00])),
    "DOUBLE": ([], np.array([0.1], "<f8").tobytes(), ("double_data", [0.1])),
    "UINT32": ([1], np.array([2**32 - 1], "<u4").tobytes(), ("uint64_data", [2**32 - 1])),
    "UINT64": ([1], np.array([2**64 - 1], "<u8").tobytes(), ("uint64_data", [2**64 - 1])),
    "COMPLEX64": ([1], np.array([1, 2], "<f4").tobytes(), ("float_data", [1, 2])),
    "COMPLEX128": ([1], np.array([1, 2], "<f8").tobytes(), ("double_data", [1, 2])),
    "BFLOAT16": ([1], bytes([128, 63]), ("int32_data", [0x3F80])),
    "FLOAT8E4M3FN": ([1], bytes([126]), ("int32_data", [126])),
    "FLOAT8E4M3FNUZ": ([1], bytes([128]), ("int32_data", [128])),
    "FLOAT8E5M2": ([1], bytes([124]), ("int32_data", [124])),
    "FLOAT8E5M2FNUZ": ([1], bytes([127]), ("int32_data", [127])),
    "UINT4": ([3], bytes([0x21, 0x03]), ("int32_data", [0x21, 0x03])),
    "INT4": ([2], bytes([0xE1]), ("int32_data", [0xE1])),
    "FLOAT4E2M1": ([2], bytes([0x72]), ("int32_data", [0x72])),
    "FLOAT8E8M0": ([1], bytes([127]), ("int32_data", [127])),
    "UINT2": ([5], bytes([0xE4, 0x01]), ("int32_data", [0xE4, 0x01])),
    "INT2": ([4], bytes([0x1B]), ("int32_data", [0x1B])),
    "STRING": ([2], None, ("string_data", [b"one", "zwölf".encode()])),
}
assert set(TENSORS) == set(NAMES.values())


def types_model(raw):
    tensors = []
    for number, name in sorted(NAMES.items()):
        dims, data, (field, values) = TENSORS[name]
        tensor = TensorProto(name=name.lower() + "_value", data_type=number, dims=dims)
        if raw and data is not None:
            tensor.raw_data = data
        else:
            getattr(tensor, field).extend(values)
        tensors.append(tensor)
    graph = helper.make_graph([], "types", [], [], tensors)
    return helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 24)])


def props(message, **entries):
    for key, value in entries.items():
        message.metadata_props.add(key=key, value=value)


def external_model():
    (HERE / "external.bin").write_bytes(bytes(8) + np.array([1, 2, 3, 4], "<f4").tobytes() + np.array([5, 6], "<i8").tobytes())
    tensors = []
    for name, number, dims, entries in [("w", TensorProto.FLOAT, [2, 2], {"offset": "8", "length": "16"}), ("v", TensorProto.INT64, [2], {"offset": "24"})]:
        tensor = TensorProto(name=name, data_type=number, dims=dims, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="external.bin")
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "external", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])], tensors)
    return helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 24)])


def everything_model():
    f32 = TensorProto.FLOAT
    inner = helper.make_graph(
        [helper.make_node("Add", ["x", "b"], ["t"], name="inner add"), helper.make_node("Neg", ["t"], ["r"])], "then", [],
        [onnx.ValueInfoProto(name="r")], [helper.make_tensor("b", f32, [1], [2.0])])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["r"])], "else", [], [onnx.ValueInfoProto(name="r")])
    nodes = [
        helper.make_node("If", ["c"], ["t"], then_branch=inner, else_branch=other),
        helper.make_node("f", ["t", "", "x"], ["u", ""], name="call", domain="local", overload="two"),
        helper.make_node("Add", ["u", "w"], ["y"], domain="ai.onnx"),
    ]
    attributes = nodes[1].attribute
    attributes.append(helper.make_attribute("tensors", [helper.make_tensor("", f32, [1], [1.0]), helper.make_tensor("", f32, [], [2.0])]))
    attributes.append(helper.make_attribute("graphs", [other, other]))
    attributes.append(helper.make_attribute("types", [helper.make_tensor_type_proto(f32, [2]), helper.make_tensor_type_proto(f32, None)]))
    attributes.append(helper.make_attribute("empty", [], attr_type=onnx.AttributeProto.INTS))
    old = onnx.AttributeProto(name="untyped")  # files older than the type field
    old.floats.extend([1, 2])
    attributes.append(old)
    props(nodes[2], origin="layer 0")
    nodes[2].doc_string = "adds"
    inputs = [
        helper.make_tensor_value_info("x", f32, ["batch", None, "past + 1", 4]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_value_info("s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(f32, None))),
        helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(f32, [-1]))),
        helper.make_value_info("m", helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(f32, []))),
        helper.make_value_info("sp", helper.make_sparse_tensor_type_proto(f32, [4])),
    ]
    props(inputs[0], kind="input")
    inputs[0].doc_string = "the input"
    weight = helper.make_tensor("w", f32, [1], [3.0])
    weight.doc_string = "the weight"
    props(weight, kind="weight")
    info = helper.make_tensor_value_info("u", f32, ["batch"])
    props(info, kind="middle")
    graph = helper.make_graph(nodes, "everything", inputs, [helper.make_tensor_value_info("y", f32, ["batch"])], [weight], "the graph", [info])
    props(graph, kind="graph")
    relu = helper.make_node("Relu", ["a"], ["p"])
    scale = helper.make_node("Foo", ["p"], ["q"])
    for name in ("alpha", "beta"):
        reference = scale.attribute.add(name=name, ref_attr_name=name)
        reference.type = onnx.AttributeProto.FLOAT
    function = helper.make_function("local", "f", ["a", "b", "c"], ["p", "q"], [relu, scale], [helper.make_opsetid("", 24)], ["alpha"],
                                    [helper.make_attribute("beta", 0.5)], overload="two")
    function.doc_string = "the function"
    function.value_info.append(helper.make_tensor_value_info("a", f32, ["n"]))
    props(function, kind="function")
    model = helper.make_model(graph, ir_version=11, functions=[function], producer_name="fixture",
                              opset_imports=[helper.make_opsetid("ai.onnx", 24), helper.make_opsetid("local", 1)])
    props(model, kind="model")
    model.graph.quantization_annotation.add(tensor_name="w")
    return model


def save(name, model):
    (HERE / name).write_bytes(model.SerializeToString(deterministic=True))


save("types_raw.onnx", types_model(raw=True))
save("types_typed.onnx", types_model(raw=False))
save("external.onnx", external_model())
save("everything.onnx", everything_model())
save("printed.onnx", onnx.parser.parse_model((HERE / "printed.txt").read_text()))

#!/usr/bin/env python3
"""Makes the fixtures of the reference interpreter and of shape inference: one-node models, run in ONNX Runtime.

usage: make_cases.py [TOPIC ...]        needs onnx and onnxruntime (1.32); writes TOPIC.json beside itself

A case: {"name", "model": ONNX text, "inputs": {name: tensor}, "outputs": {name: tensor}}; a tensor: {"t": data type, "d": dims, "v": values}.
Inputs are multiples of 1/8, written as integers with "q": 8. Outputs that are unspecified hold null. A case with "rows" compares only those rows
of axis 1 per batch entry (tokens that are no padding).
"""
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
MS = "com.microsoft"
topics = {}
current = None


def topic(name):
    def register(function):
        topics[name] = function
        return function
    return register


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

class Rng:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def f(self, *dims, low=-16, high=16):  # multiples of 1/8
        return (self.rng.integers(low, high + 1, dims) / 8).astype(np.float32)

    def i(self, *dims, low=-5, high=6, dtype=np.int64):
        return self.rng.integers(low, high, dims).astype(dtype)

    def b(self, *dims):
        return self.rng.integers(0, 2, dims).astype(bool)

    def pos(self, *dims):
        return self.f(*dims, low=1, high=24)


def I(*values, dtype=np.int64):
    return np.array(values, dtype)


def S(value, dtype=np.int64):
    return np.array(value, dtype)


def F(*values):
    return np.array(values, np.float32)


# ── cases ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

def onnx_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def tensor(array, exact):
    out = {"t": int(onnx_type(array)), "d": list(array.shape)}
    flat = array.reshape(-1)
    if array.dtype.kind in "iub":
        out["v"] = [int(v) for v in flat]
    else:
        flat = flat.astype(np.float64)
        eighths = flat * 8
        if exact and np.all(np.isfinite(flat)) and np.all(eighths == np.round(eighths)):
            out["q"] = 8
            out["v"] = [int(v) for v in eighths]
        else:
            out["v"] = [float("%.7g" % v) if np.isfinite(v) else ("nan" if np.isnan(v) else "inf" if v > 0 else "-inf") for v in flat]
    return out


def case(op, inputs, outputs=1, domain="", name=None, opset=24, constant=(), rows=None, unspecified=(), **attrs):
    """inputs: arrays, or None where absent; `constant` inputs become initializers; outputs: how many, or a list with None for absent ones."""
    names = ["x%d" % i if a is not None else "" for i, a in enumerate(inputs)]
    wanted = [("y%d" % i) for i in range(outputs)] if isinstance(outputs, int) else [("y%d" % i if o else "") for i, o in enumerate(outputs)]
    node = helper.make_node(op, names, wanted, domain=domain, **attrs)
    graph_inputs = [helper.make_tensor_value_info(n, onnx_type(a), a.shape) for i, (n, a) in enumerate(zip(names, inputs)) if n and i not in constant]
    initializers = [numpy_helper.from_array(a, n) for i, (n, a) in enumerate(zip(names, inputs)) if n and i in constant]
    graph = helper.make_graph([node], "g", graph_inputs, [helper.make_empty_tensor_value_info(n) for n in wanted if n], initializers)
    run(graph, {n: a for i, (n, a) in enumerate(zip(names, inputs)) if n and i not in constant}, name or op, opset, rows, unspecified)


def run(graph, feeds, name, opset=24, rows=None, unspecified=()):
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=11)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, feeds)
    except Exception as error:
        print("no value for %s: %s" % (name, str(error)[:200]), file=sys.stderr)
        return
    produced = {o.name: None if o.name in unspecified else tensor(r, False) for o, r in zip(graph.output, results)}
    text = onnx.printer.to_text(model)
    record = {"name": name, "model": text, "inputs": {n: tensor(a, True) for n, a in feeds.items()}, "outputs": produced}
    if rows is not None:
        record["rows"] = rows
    current.append(record)


# ── topics ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

@topic("math")
def math(r):
    x = r.f(2, 5)
    for op in ["Abs", "Atan", "Asinh", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Mish", "Neg", "Relu", "Round", "Sigmoid", "Sign", "Sin",
               "Sinh", "Cosh", "Softplus", "Softsign", "Tan", "Tanh", "Reciprocal", "HardSigmoid", "LeakyRelu", "Elu", "Celu", "Selu", "ThresholdedRelu", "Gelu",
               "Swish", "Shrink"]:
        case(op, [x + np.float32(0.0625) if op == "Reciprocal" else x])
    for op in ["Log", "Sqrt"]:
        case(op, [r.pos(6)])
    for op in ["Acos", "Asin", "Atanh"]:
        case(op, [r.f(5, low=-7, high=7)])
    case("Acosh", [r.f(5, low=9, high=20)])
    case("Gelu", [x], name="Gelu tanh", approximate="tanh")
    case("Swish", [x], name="Swish alpha", alpha=1.5)
    case("LeakyRelu", [x], name="LeakyRelu alpha", alpha=0.25)
    case("Round", [F(0.5, 1.5, 2.5, -0.5, -1.5, 2.25)], name="Round half to even")
    case("Not", [r.b(5)])
    case("BitwiseNot", [r.i(5, dtype=np.int32)])
    case("IsNaN", [F(1, np.nan, np.inf)])
    case("IsInf", [F(1, -np.inf, np.inf)], name="IsInf positive", detect_negative=0)
    a, b = r.f(2, 1, 3), r.f(4, 1)
    for op in ["Add", "Sub", "Mul"]:
        case(op, [a, b], name=op + " broadcast")
        case(op, [r.i(3), r.i(1)], name=op + " int64")
    case("Div", [a, r.pos(4, 1)])
    case("Div", [I(7, -7, 9), I(2, 2, -4)], name="Div truncates")
    case("Add", [I(2147483647, 1, dtype=np.int32), I(1, 1, dtype=np.int32)], name="Add wraps")
    case("Mul", [I(200, 3, dtype=np.uint8), I(2, 2, dtype=np.uint8)], name="Mul wraps uint8")
    case("Mod", [I(7, -7, 7, -7), I(3, 3, -3, -3)])
    case("Mod", [F(7.5, -7.5), F(2, 2)], name="Mod float", fmod=1)
    case("Mod", [I(7, -7, 7, -7), I(3, 3, -3, -3)], name="Mod C", fmod=1)
    case("Pow", [r.pos(2, 3), F(2)])
    case("Pow", [r.f(3), I(3)], name="Pow int exponent")
    case("PRelu", [r.f(2, 3, 2), r.f(3, 1)])
    for op in ["And", "Or", "Xor"]:
        case(op, [r.b(2, 4), r.b(4)])
    for op in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]:
        case(op, [r.i(2, 4, low=0, high=3), r.i(4, low=0, high=3)])
    for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
        case(op, [r.i(4, low=0, high=15, dtype=np.int32), r.i(4, low=-8, high=15, dtype=np.int32)])
    case("BitShift", [r.i(4, low=0, high=200, dtype=np.uint8), r.i(4, low=0, high=5, dtype=np.uint8)], direction="LEFT")
    case("BitShift", [r.i(4, low=0, high=200, dtype=np.uint8), r.i(4, low=0, high=5, dtype=np.uint8)], direction="RIGHT", name="BitShift right")
    for op in ["Sum", "Mean", "Min", "Max"]:
        case(op, [r.f(2, 3), r.f(3), r.f(1)])
    case("Where", [r.b(2, 1), r.f(3), r.f(2, 3)])
    case("Clip", [x, S(-0.5, np.float32), S(0.75, np.float32)])
    case("Clip", [x, None, S(0.75, np.float32)], name="Clip above")
    case("Clip", [r.i(5), S(-2), None], name="Clip below")
    case("Cast", [F(1.75, -1.75, 0, 250)], name="Cast to int32", to=TensorProto.INT32)
    case("Cast", [F(1.75, -1.75, 0)], name="Cast to bool", to=TensorProto.BOOL)
    case("Cast", [I(300, -1, 7)], name="Cast to uint8", to=TensorProto.UINT8)
    case("Cast", [r.b(4)], name="Cast bool to float", to=TensorProto.FLOAT)
    case("CastLike", [F(1.75, -2.5), I(0)])
    case("Identity", [x])
    case("Dropout", [x], outputs=2)
    for op in ["Gelu", "QuickGelu"]:
        case(op, [x], domain=MS, name="ms " + op)
    case("QuickGelu", [x], domain=MS, name="QuickGelu alpha", alpha=1.0)
    case("BiasGelu", [r.f(2, 2, 4), r.f(4)], domain=MS)
    case("FastGelu", [x], domain=MS)
    case("FastGelu", [r.f(2, 2, 4), r.f(4)], domain=MS, name="FastGelu bias")


@topic("linear")
def linear(r):
    case("MatMul", [r.f(2, 3), r.f(3, 4)])
    case("MatMul", [r.f(2, 1, 2, 3), r.f(2, 3, 2)], name="MatMul batch")
    case("MatMul", [r.f(3), r.f(2, 3, 2)], name="MatMul row")
    case("MatMul", [r.f(2, 2, 3), r.f(3)], name="MatMul column")
    case("MatMul", [r.f(3), r.f(3)], name="MatMul dot")
    case("Gemm", [r.f(2, 3), r.f(3, 4), r.f(4)])
    case("Gemm", [r.f(3, 2), r.f(4, 3), r.f(2, 1)], name="Gemm transposed", transA=1, transB=1, alpha=0.5, beta=2.0)
    case("Gemm", [r.f(2, 3), r.f(3, 4)], name="Gemm no C")
    case("FusedMatMul", [r.f(2, 3, 4), r.f(5, 4)], domain=MS, transB=1)
    case("FusedMatMul", [r.f(2, 4, 3), r.f(2, 4, 5)], domain=MS, name="FusedMatMul transA alpha", transA=1, alpha=0.25)
    case("FusedMatMul", [r.f(3, 2, 4), r.f(2, 4, 2)], domain=MS, name="FusedMatMul transBatchA", transBatchA=1)
    case("FusedMatMul", [r.f(2, 3, 4), r.f(4, 2, 5)], domain=MS, name="FusedMatMul transBatchB", transBatchB=1)
    case("FusedMatMul", [r.f(4, 2, 3), r.f(4, 2, 5)], domain=MS, name="FusedMatMul transA transBatch", transA=1, transBatchA=1, transBatchB=1)
    case("MatMulInteger", [r.i(2, 3, low=0, high=9, dtype=np.uint8), r.i(3, 2, low=0, high=9, dtype=np.uint8), S(2, np.uint8), S(3, np.uint8)])
    case("Einsum", [r.f(2, 3), r.f(3, 4)], name="Einsum matmul", equation="ij,jk->ik")
    case("Einsum", [r.f(2, 2, 3), r.f(2, 4, 3)], name="Einsum batch", equation="bij,bkj->bik")
    case("Einsum", [r.f(2, 3, 4)], name="Einsum transpose", equation="...ij->...ji")
    case("Einsum", [r.f(3, 3)], name="Einsum trace", equation="ii->")
    case("Einsum", [r.f(2, 3), r.f(3)], name="Einsum implicit", equation="ij,j")
    case("Einsum", [r.f(2, 1, 2, 3), r.f(1, 2, 3, 2)], name="Einsum broadcast", equation="...ij,...jk->...ik")
    case("Conv", [r.f(1, 2, 6), r.f(3, 2, 3), r.f(3)], name="Conv 1-D", pads=[1, 1], strides=[2])
    case("Conv", [r.f(1, 2, 6), r.f(2, 1, 3)], name="Conv 1-D depthwise", group=2, pads=[4, 0], dilations=[2])
    case("Conv", [r.f(2, 2, 4, 5), r.f(3, 2, 2, 3), r.f(3)], name="Conv 2-D", pads=[1, 0, 0, 1], strides=[2, 1])
    case("Conv", [r.f(1, 1, 5, 4), r.f(2, 1, 3, 3)], name="Conv 2-D same", auto_pad="SAME_UPPER", strides=[2, 2])
    case("Conv", [r.f(1, 1, 5, 4), r.f(2, 1, 2, 2)], name="Conv 2-D same lower", auto_pad="SAME_LOWER")
    case("ConvTranspose", [r.f(1, 2, 4), r.f(2, 2, 3), r.f(2)], name="ConvTranspose 1-D", strides=[2], pads=[1, 0], output_padding=[1])
    case("ConvTranspose", [r.f(1, 2, 2, 3), r.f(2, 1, 2, 2)], name="ConvTranspose groups", group=2, dilations=[1, 2])
    case("MaxPool", [r.f(1, 2, 5, 4)], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    case("AveragePool", [r.f(1, 2, 5, 4)], kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=1)
    case("AveragePool", [r.f(1, 2, 7)], name="AveragePool excluding pads", kernel_shape=[3], pads=[1, 1], strides=[2])
    case("GlobalAveragePool", [r.f(2, 2, 3, 2)])
    case("GlobalMaxPool", [r.f(2, 2, 3)])


@topic("reduce")
def reduce(r):
    x = r.f(2, 3, 2)
    for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"]:
        case(op, [x, I(-1)], constant=[1])
        case(op, [x, I(0, 2)], constant=[1], name=op + " squeezed", keepdims=0)
    case("ReduceLogSum", [r.pos(2, 3), I(1)], constant=[1])
    case("ReduceSum", [x], name="ReduceSum all")
    case("ReduceSum", [x], name="ReduceSum noop", noop_with_empty_axes=1)
    case("ReduceSum", [r.i(2, 3), I(1)], constant=[1], name="ReduceSum int64")
    case("ReduceMax", [r.i(4, dtype=np.int32)], name="ReduceMax int32", keepdims=0)
    case("ArgMax", [r.i(2, 4, low=0, high=3)], axis=1)
    case("ArgMax", [r.i(2, 4, low=0, high=3)], name="ArgMax last", axis=-1, select_last_index=1, keepdims=0)
    case("ArgMin", [r.f(3, 2)])
    case("CumSum", [x, S(1)], constant=[1])
    case("CumSum", [r.i(2, 4), S(-1)], constant=[1], name="CumSum exclusive reverse", exclusive=1, reverse=1)
    case("TopK", [r.f(2, 6), I(3)], outputs=2, constant=[1])
    case("TopK", [r.f(5, 2), I(2)], outputs=2, constant=[1], name="TopK smallest", axis=0, largest=0)
    for op in ["Softmax", "LogSoftmax", "Hardmax"]:
        case(op, [r.f(2, 4)])
        case(op, [r.f(2, 3, 2)], name=op + " axis", axis=1)
    case("NonZero", [r.b(3, 2)])
    case("Unique", [F(2, 1, 1, 3, 2)], outputs=4)
    case("Unique", [F(2, 1, 1, 3, 2)], outputs=4, name="Unique unsorted", sorted=0)


@topic("norms")
def norms(r):
    x = r.f(2, 3, 4)
    case("LayerNormalization", [x, r.f(4), r.f(4)], outputs=3)
    case("LayerNormalization", [x, r.f(3, 4)], name="LayerNormalization axis", axis=1, epsilon=0.125)
    case("RMSNormalization", [x, r.f(4)])
    case("RMSNormalization", [x, r.f(3, 4)], name="RMSNormalization axis", axis=-2, epsilon=0.125)
    case("SimplifiedLayerNormalization", [x, r.f(4)], outputs=2, epsilon=0.25)
    case("InstanceNormalization", [r.f(2, 2, 3), r.f(2), r.f(2)])
    case("GroupNormalization", [r.f(1, 4, 3), r.f(4), r.f(4)], num_groups=2)
    case("BatchNormalization", [r.f(2, 2, 3), r.f(2), r.f(2), r.f(2), r.pos(2)])
    case("LpNormalization", [r.f(2, 3)], axis=1, p=1)
    case("SkipLayerNormalization", [x, r.f(2, 3, 4), r.f(4), r.f(4), r.f(4)], outputs=[1, 0, 0, 1], domain=MS)
    case("SkipLayerNormalization", [x, r.f(3, 4), r.f(4)], domain=MS, name="SkipLayerNormalization broadcast", epsilon=0.125)
    case("SkipLayerNormalization", [x, r.f(1, 3, 4), r.f(4), None, r.f(4)], domain=MS, name="SkipLayerNormalization bias")
    case("SkipSimplifiedLayerNormalization", [x, r.f(2, 3, 4), r.f(4)], outputs=[1, 0, 0, 1], domain=MS)
    case("SkipSimplifiedLayerNormalization", [r.f(3, 4), r.f(3, 4), r.f(4), r.f(4)], domain=MS, name="SkipSimplifiedLayerNormalization bias", epsilon=0.125)


@topic("shape")
def shape(r):
    x = r.f(2, 3, 4)
    case("Shape", [x])
    case("Shape", [x], name="Shape part", start=-2, end=3)
    case("Size", [x])
    case("Reshape", [x, I(0, -1)], constant=[1])
    case("Reshape", [x, I(4, 2, 3)], constant=[1], name="Reshape whole")
    case("Reshape", [np.zeros((0, 3), np.float32), I(3, 0)], constant=[1], name="Reshape allowzero", allowzero=1)
    case("Flatten", [x], axis=2)
    case("Flatten", [x], axis=0, name="Flatten 0")
    case("Squeeze", [r.f(1, 2, 1), I(-1)], constant=[1])
    case("Squeeze", [r.f(1, 2, 1)], name="Squeeze all")
    case("Unsqueeze", [r.f(2, 3), I(0, -1)], constant=[1])
    case("Transpose", [x])
    case("Transpose", [x], name="Transpose perm", perm=[1, 2, 0])
    case("Concat", [r.f(2, 1), r.f(2, 3)], axis=-1)
    case("Split", [r.f(5, 2)], outputs=3, num_outputs=3)
    case("Split", [r.f(2, 5), I(2, 3)], outputs=2, constant=[1], name="Split sizes", axis=1)
    case("Slice", [r.f(4, 5), I(1, -2), I(3, 100)], constant=[1, 2])
    case("Slice", [r.f(4, 5), I(-1), I(-100), I(1), I(-2)], constant=[1, 2, 3, 4], name="Slice backwards")
    case("Slice", [r.f(6), I(0), I(6), I(0), I(4)], constant=[1, 2, 3, 4], name="Slice steps")
    case("Slice", [r.f(3), I(2), I(1)], constant=[1, 2], name="Slice empty")
    case("Expand", [r.f(3, 1), I(2, 1, 4)], constant=[1])
    case("Tile", [r.f(2, 2), I(2, 3)], constant=[1])
    case("Pad", [r.f(2, 3), I(0, 1, 1, 2), S(1.5, np.float32)], constant=[1])
    case("Pad", [r.f(2, 3), I(2, -1), None, I(1)], constant=[1, 3], name="Pad axes")
    for mode in ["reflect", "edge", "wrap"]:
        case("Pad", [r.f(2, 4), I(0, 2, 0, 3)], constant=[1], name="Pad " + mode, mode=mode)
    case("Range", [S(1), S(8), S(3)], constant=[0, 1, 2])
    case("Range", [S(1.5, np.float32), S(-1, np.float32), S(-0.5, np.float32)], constant=[0, 1, 2], name="Range float")
    case("ConstantOfShape", [I(2, 3)], constant=[0], value=helper.make_tensor("v", TensorProto.INT64, [1], [7]))
    case("Constant", [], value_ints=[3, 4])
    case("Constant", [], name="Constant float", value_float=1.5)
    case("Constant", [], name="Constant tensor", value=numpy_helper.from_array(r.f(2, 2)))
    case("EyeLike", [r.f(3, 4)], k=1)
    case("Trilu", [r.f(3, 4)])
    case("Trilu", [r.f(2, 3, 3), S(-1)], constant=[1], name="Trilu lower", upper=0)
    case("DepthToSpace", [r.f(1, 8, 2, 1)], blocksize=2)
    case("DepthToSpace", [r.f(1, 8, 1, 2)], name="DepthToSpace CRD", blocksize=2, mode="CRD")
    case("SpaceToDepth", [r.f(1, 2, 2, 4)], blocksize=2)


@topic("index")
def index(r):
    case("Gather", [r.f(4, 2), I(0, -1, 2)])
    case("Gather", [r.f(2, 4), I(3)], name="Gather axis", axis=1)
    case("Gather", [r.f(3, 2), S(1)], constant=[1], name="Gather scalar")
    case("GatherElements", [r.f(3, 3), np.array([[0, -1], [2, 1]])], axis=1)
    case("GatherND", [r.f(2, 3, 2), np.array([[0, 1], [1, -1]])])
    case("GatherND", [r.f(2, 3, 2), np.array([[1], [0]])], name="GatherND batch", batch_dims=1)
    case("ScatterElements", [r.f(3, 3), np.array([[0, 2], [1, 1]]), r.f(2, 2)], axis=1)
    case("ScatterElements", [r.f(3, 3), np.array([[0, 2], [0, 1]]), r.f(2, 2)], name="ScatterElements add", axis=0, reduction="add")
    case("ScatterND", [r.f(3, 2), np.array([[2], [0]]), r.f(2, 2)])
    case("ScatterND", [r.f(3, 2), np.array([[2, 0], [2, 0]]), r.f(2)], name="ScatterND add", reduction="add")
    case("TensorScatter", [r.f(2, 1, 4, 2), r.f(2, 1, 2, 2), I(1, 2)])
    case("TensorScatter", [r.f(2, 4, 2), r.f(2, 2, 2), I(3, 0)], name="TensorScatter circular", mode="circular", axis=1)
    case("OneHot", [I(0, 2, -1), S(3), F(-1, 2)], constant=[1])
    case("OneHot", [I(0, 2, 5), S(3), F(0, 1)], constant=[1], name="OneHot axis", axis=0)
    case("Compress", [r.f(3, 2), np.array([True, False, True])], axis=0)
    case("Compress", [r.f(2, 2), np.array([True, False, True])], name="Compress flat")


@topic("quantize")
def quantize(r):
    case("DequantizeLinear", [r.i(2, 4, dtype=np.int8), S(0.5, np.float32), S(3, np.int8)])
    case("DequantizeLinear", [r.i(2, 4, low=0, high=9, dtype=np.uint8), r.pos(2), r.i(2, low=0, high=9, dtype=np.uint8)], name="DequantizeLinear axis", axis=0)
    case("DequantizeLinear", [r.i(2, 6, dtype=np.int8), r.pos(2, 2)], name="DequantizeLinear blocked", axis=1, block_size=3)
    case("QuantizeLinear", [r.f(2, 4), S(0.5, np.float32), S(3, np.int8)])
    case("QuantizeLinear", [r.f(2, 4), r.pos(4), r.i(4, low=0, high=9, dtype=np.uint8)], name="QuantizeLinear axis", axis=1)
    for bits, block, k, n in [(4, 16, 24, 3), (8, 16, 20, 2), (2, 16, 32, 2)]:
        blocks = -(-k // block)
        b = r.i(n, blocks, block * bits // 8, low=0, high=256, dtype=np.uint8)
        scales = r.pos(n, blocks)
        zeros = r.i(n, -(-blocks * bits // 8), low=0, high=256, dtype=np.uint8)
        attrs = dict(domain=MS, K=k, N=n, bits=bits, block_size=block)
        case("MatMulNBits", [r.f(2, k), b, scales], name="MatMulNBits %d" % bits, **attrs)
        case("MatMulNBits", [r.f(1, 2, k), b, scales, zeros], name="MatMulNBits %d zero points" % bits, **attrs)
    k, n = 32, 2
    b, scales = r.i(n, 2, 8, low=0, high=256, dtype=np.uint8), r.pos(n, 2)
    case("MatMulNBits", [r.f(2, k), b, scales, r.f(n, 2), None, r.f(n)], name="MatMulNBits float zeros and bias", domain=MS, K=k, N=n, bits=4, block_size=16)
    for bits in (4, 8):
        data, scales = r.i(3, 32 * bits // 8, low=0, high=256, dtype=np.uint8), r.pos(3, 2)
        zeros = r.i(3, -(-2 * bits // 8), low=0, high=256, dtype=np.uint8)
        case("GatherBlockQuantized", [data, I(2, 0), scales, zeros], name="GatherBlockQuantized %d" % bits, domain=MS, bits=bits, block_size=16)


def rope_tables(r, rows, half):
    angle = r.rng.uniform(0, 6.28, (rows, half))
    return (np.round(np.cos(angle) * 8) / 8).astype(np.float32), (np.round(np.sin(angle) * 8) / 8).astype(np.float32)


@topic("attention")
def attention(r):
    B, N, KV, S_, T, D = 2, 4, 2, 3, 5, 2
    q4, k4, v4 = r.f(B, N, S_, D), r.f(B, KV, T, D), r.f(B, KV, T, D)
    case("Attention", [q4, k4, v4])
    case("Attention", [r.f(B, N, S_, D), r.f(B, N, S_, D), r.f(B, N, S_, 3)], name="Attention causal, value size", is_causal=1)
    case("Attention", [q4, k4, v4], name="Attention causal, more keys", is_causal=1)
    case("Attention", [q4, k4, v4, r.b(S_, T)], name="Attention bool mask 2-D")
    case("Attention", [q4, k4, v4, r.b(B, 1, S_, T), None, None], name="Attention bool mask 4-D", scale=0.5)
    hidden = np.ones((S_, T), bool)
    hidden[1] = False
    case("Attention", [q4, k4, v4, hidden], name="Attention hidden row")
    case("Attention", [q4, k4, v4, r.f(B, N, S_, T)], name="Attention float mask", softcap=1.5)
    case("Attention", [q4, k4, v4, r.f(1, S_, T)], name="Attention float mask 3-D")
    past = [r.f(B, KV, 2, D), r.f(B, KV, 2, D)]
    case("Attention", [q4, r.f(B, KV, S_, D), r.f(B, KV, S_, D), None] + past, outputs=3, name="Attention past causal", is_causal=1)
    case("Attention", [q4, r.f(B, KV, S_, D), r.f(B, KV, S_, D), r.b(S_, T)] + past, outputs=4, name="Attention past mask qk", qk_matmul_output_mode=3)
    for mode in range(4):
        case("Attention", [r.f(1, 1, 2, 2), r.f(1, 1, 2, 2), r.f(1, 1, 2, 2), r.f(2, 2)], outputs=[1, 0, 0, 1], name="Attention qk mode %d" % mode, softcap=2.0,
             qk_matmul_output_mode=mode)
    q3, k3, v3 = r.f(B, S_, N * D), r.f(B, T, KV * D), r.f(B, T, KV * D)
    case("Attention", [q3, k3, v3], name="Attention 3-D", q_num_heads=N, kv_num_heads=KV)
    case("Attention", [r.f(B, S_, N * D), r.f(B, S_, KV * D), r.f(B, S_, KV * D), None] + past, outputs=3, name="Attention 3-D past", q_num_heads=N, kv_num_heads=KV, is_causal=1)
    case("Attention", [q4, k4, v4, None, None, None, I(5, 3)], name="Attention nonpad")
    case("Attention", [q4, k4, v4, None, None, None, I(5, 4)], name="Attention nonpad causal", is_causal=1)
    for left, right in [(1, -1), (1, 0), (-1, 1), (2, 1)]:
        case("Attention", [q4, r.f(B, KV, S_, D), r.f(B, KV, S_, D), None] + past, outputs=3, name="Attention window %d %d" % (left, right), opset=25, left_window_size=left,
             right_window_size=right)

    cos, sin = rope_tables(r, 8, 2)
    ids = np.array([[0, 1, 2], [5, 0, 7]])
    x4, x3 = r.f(2, 2, 3, 4), r.f(2, 3, 8)
    case("RotaryEmbedding", [x4, cos, sin, ids])
    case("RotaryEmbedding", [x3, cos, sin, ids], name="RotaryEmbedding 3-D interleaved", num_heads=2, interleaved=1)
    case("RotaryEmbedding", [r.f(2, 2, 3, 6), cos, sin, ids], name="RotaryEmbedding partial", rotary_embedding_dim=4)
    case("RotaryEmbedding", [x4, cos[ids], sin[ids]], name="RotaryEmbedding without positions")
    case("RotaryEmbedding", [x4, ids, cos, sin], domain=MS, name="ms RotaryEmbedding 4-D")
    case("RotaryEmbedding", [x3, ids, cos, sin], domain=MS, name="ms RotaryEmbedding 3-D")
    case("RotaryEmbedding", [x3, I(3), cos, sin], domain=MS, name="ms RotaryEmbedding offset interleaved", interleaved=1)
    case("RotaryEmbedding", [r.f(2, 3, 12), ids, cos, sin], domain=MS, name="ms RotaryEmbedding partial", num_heads=2, rotary_embedding_dim=4)


@topic("gqa")
def gqa(r):
    N, KV, D = 2, 1, 8

    def make(name, B=1, S_=3, past=0, valid=None, packed=False, rope=0, bias=False, positions=None, sink=False, outputs=3, D=D, capacity=None, **attrs):
        P = past if capacity is None else capacity
        T = max(valid) if valid else past + S_
        valid = valid or [T] * B
        q = r.f(B, S_, (N + 2 * KV) * D) if packed else r.f(B, S_, N * D)
        k, v = (None, None) if packed else (r.f(B, S_, KV * D), r.f(B, S_, KV * D))
        cache = [r.f(B, KV, P, D), r.f(B, KV, P, D)] if past or capacity else [None, None]
        inputs = [q, k, v] + cache + [np.array([n - 1 for n in valid], np.int32), S(T, np.int32)]
        inputs += list(rope_tables(r, 8, rope)) if rope else [None, None]
        inputs += [positions, r.f(B, 1, S_, T) if bias else None, r.f(N) if sink else None]
        while inputs[-1] is None:
            inputs.pop()
        if rope:
            attrs["do_rotary"] = 1
        rows = [min(S_, n) for n in valid] if past == 0 and capacity is None else None
        padded = rows is not None and min(rows) < S_
        case("GroupQueryAttention", inputs, outputs=outputs, domain=MS, name="GQA " + name, num_heads=N, kv_num_heads=KV, rows=rows if padded else None,
             unspecified=["y1", "y2"] if padded else (), **attrs)

    make("prompt")
    make("prompt packed", packed=True)
    make("right padded prompt", B=2, valid=[3, 2])
    make("decode", B=2, S_=1, past=3)
    make("decode right padded", B=2, S_=1, past=3, valid=[4, 3])
    make("decode packed", S_=1, past=2, packed=True)
    make("chunk", S_=2, past=2)
    make("scale softcap", scale=0.5, softcap=2.0)
    make("window", S_=4, local_window_size=2)
    make("window decode", S_=1, past=3, local_window_size=2)
    make("bias", S_=2, past=1, bias=True)
    make("smooth", smooth_softmax=1)
    make("sink", sink=True)
    make("rope", D=16, rope=8, S_=2)
    make("rope interleaved partial", D=32, rope=8, S_=2, rotary_interleaved=1)
    make("rope decode", D=16, rope=8, S_=1, past=2, packed=True)
    make("rope decode right padded", B=2, D=16, rope=8, S_=1, past=2, valid=[3, 2])
    make("rope positions", D=16, rope=8, S_=2, positions=np.array([[3, 4]]))
    make("rope positions decode", B=2, D=16, rope=8, S_=1, past=2, positions=np.array([[5], [1]]))
    make("not causal", causal=0)
    make("qk before", S_=2, outputs=4, qk_output=1)
    make("qk after", S_=2, outputs=4, qk_output=2)


@topic("mha")
def mha(r):
    B, N, D, S_, L = 2, 2, 2, 2, 3
    H = N * D
    q, k, v = r.f(B, S_, H), r.f(B, L, H), r.f(B, L, H)
    def case_mha(name, inputs, outputs=1, **attrs):
        case("MultiHeadAttention", inputs, outputs=outputs, domain=MS, name="MHA " + name, num_heads=N, **attrs)
    case_mha("cross", [q, k, v])
    case_mha("value size", [q, k, r.f(B, L, 6)])
    case_mha("bias", [q, k, v, r.f(3 * H)])
    case_mha("key mask", [q, k, v, None, np.array([[1, 1, 0], [1, 0, 1]], np.int32)])
    case_mha("key lengths", [q, k, v, None, I(2, 3, dtype=np.int32)])
    case_mha("mask 3-D", [q, k, v, None, np.array([[[1, 0, 1], [1, 1, 0]], [[1, 1, 1], [0, 0, 1]]], np.int32)])
    case_mha("attention bias", [q, k, v, None, None, r.f(1, N, S_, L)], scale=0.25)
    case_mha("causal", [q, r.f(B, S_, H), r.f(B, S_, H)], unidirectional=1)
    case_mha("past", [q, r.f(B, S_, H), r.f(B, S_, H), None, None, None, r.f(B, N, 2, D), r.f(B, N, 2, D)], outputs=3)
    case_mha("past causal", [q, r.f(B, S_, H), r.f(B, S_, H), None, None, None, r.f(B, N, 2, D), r.f(B, N, 2, D)], outputs=3, unidirectional=1)
    case_mha("key 4-D", [q, r.f(B, N, L, D), r.f(B, N, L, D)])
    x, w, b = r.f(B, S_, 4), r.f(4, 12), r.f(12)
    case("Attention", [x, w, b], domain=MS, name="ms Attention", num_heads=2)
    case("Attention", [x, w, b, np.array([[1, 0], [1, 1]], np.int32)], domain=MS, name="ms Attention mask", num_heads=2)
    case("Attention", [x, w, b, None, r.f(2, B, 2, 2, 2)], outputs=2, domain=MS, name="ms Attention past causal", num_heads=2, unidirectional=1)
    case("Attention", [x, r.f(4, 10), r.f(10)], domain=MS, name="ms Attention sizes", num_heads=2, qkv_hidden_sizes=[4, 4, 2])


@topic("experts")
def experts(r):
    E, H, I_ = 3, 4, 2
    x, router = r.f(3, H), r.f(3, E)
    def moe(name, f, inputs, **attrs):
        fc1, fc2 = r.f(E, f * I_, H), r.f(E, H, I_)
        case("MoE", [inputs[0], router, fc1, r.f(E, f * I_) if inputs[1] else None, fc2] + ([r.f(E, H)] if inputs[1] else []), domain=MS, name="MoE " + name, **attrs)
    moe("relu", 1, [x, True], k=1, activation_type="relu")
    moe("gelu", 1, [x, False], k=2, activation_type="gelu", normalize_routing_weights=1)
    moe("silu 3-D", 1, [x.reshape(1, 3, H), False], k=2, activation_type="silu")
    moe("identity", 1, [x, True], k=3, activation_type="identity")
    moe("swiglu", 2, [x, True], k=2, activation_type="swiglu", swiglu_fusion=1, normalize_routing_weights=1)
    moe("swiglu limit", 2, [x, True], k=2, activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=1.5)

    B, T, dk, dv = 2, 3, 2, 3
    def lin(name, hq, hkv, rule, state=True, decay=0, beta=0, **attrs):
        inputs = [r.f(B, T, hq * dk), r.f(B, T, hkv * dk, low=-4, high=4), r.f(B, T, hkv * dv), r.f(B, hkv, dk, dv) if state else None]
        inputs += [-r.pos(B, T, decay) if decay else None, r.f(B, T, beta, low=0, high=8) if beta else None]
        while inputs[-1] is None:
            inputs.pop()
        case("LinearAttention", inputs, outputs=2, domain=MS, name="LinearAttention " + name, q_num_heads=hq, kv_num_heads=hkv, update_rule=rule, **attrs)
    lin("linear", 2, 2, "linear")
    lin("gated", 2, 2, "gated", decay=2)
    lin("gated per channel", 2, 2, "gated", decay=4, state=False)
    lin("delta", 2, 2, "delta", beta=2, scale=0.5)
    lin("delta one beta", 2, 2, "delta", beta=1)
    lin("gated delta", 2, 2, "gated_delta", decay=2, beta=2)
    lin("gated delta no state", 2, 2, "gated_delta", decay=4, beta=2, state=False)
    lin("more query heads", 4, 2, "gated_delta", decay=2, beta=2)

    C, L, K = 2, 4, 3
    case("CausalConvWithState", [r.f(B, C, L), r.f(C, 1, K)], outputs=2, domain=MS)
    case("CausalConvWithState", [r.f(B, C, L), r.f(C, 1, K), r.f(C), r.f(B, C, K - 1)], outputs=2, domain=MS, name="CausalConvWithState silu", activation="silu")
    case("CausalConvWithState", [r.f(B, C, 1), r.f(C, 1, K), None, r.f(B, C, K - 1)], outputs=2, domain=MS, name="CausalConvWithState one step")
    case("CausalConvWithState", [r.f(B, C, L), r.f(C, 1, K), None, r.f(B, C, 2 * (K - 1))], outputs=2, domain=MS, name="CausalConvWithState dilated", dilation=2)
    case("CausalConvWithState", [r.f(B, L, C), r.f(C, 1, K), r.f(C)], outputs=2, domain=MS, name="CausalConvWithState channels last", channels_last=1)


@topic("control")
def control(r):
    def text(name, body, feeds):
        model = onnx.parser.parse_model('<ir_version: 11, opset_import: ["" : 24]>\n' + body)
        run(model.graph, feeds, name)
    for flag in (True, False):
        text("If %s" % flag, """g (bool c, float[3] x) => (float[3] y) {
          y = If (c) <then_branch = a () => (float[3] p) { p = Add(x, x) }, else_branch = b () => (float[3] q) { q = Neg(x) }>
        }""", {"c": S(flag, bool), "x": r.f(3)})
    text("Loop", """g (int64 n, float[2] x) => (float[2] last, float[k,2] all) {
      go = Constant <value = bool {1}> ()
      last, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool c2, float[2] w, float[2] s) {
        c2 = Identity(c)
        w = Add(v, x)
        s = Mul(w, w)
      }>
    }""", {"n": S(3), "x": r.f(2)})
    text("Loop until", """g (float[1] x) => (float[1] last) {
      none = Constant <value = int64 {100}> ()
      go = Constant <value = bool {1}> ()
      limit = Constant <value = float {20.0}> ()
      last = Loop (none, go, x) <body = b (int64 i, bool c, float[1] v) => (bool c2, float[1] w) {
        w = Add(v, v)
        sum = ReduceSum <keepdims = 0> (w)
        c2 = Less(sum, limit)
      }>
    }""", {"x": F(1.5)})
    text("Scan", """g (float[2] s, float[3,2] x) => (float[2] last, float[3,2] all) {
      last, all = Scan <num_scan_inputs = 1, body = b (float[2] h, float[2] v) => (float[2] h2, float[2] y) {
        h2 = Add(h, v)
        y = Mul(h2, v)
      }> (s, x)
    }""", {"s": r.f(2), "x": r.f(3, 2)})
    text("Scan axes", """g (float[2] s, float[2,3] x) => (float[2] last, float[2,3] all) {
      last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1], scan_input_directions = [1], scan_output_directions = [1],
                        body = b (float[2] h, float[2] v) => (float[2] h2, float[2] y) {
        h2 = Sub(v, h)
        y = Identity(h2)
      }> (s, x)
    }""", {"s": r.f(2), "x": r.f(2, 3)})


def main(names):
    global current
    for i, (name, function) in enumerate(topics.items()):
        if names and name not in names:
            continue
        current = []
        function(Rng(100 + i))
        with open(os.path.join(HERE, name + ".json"), "w") as file:
            file.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":"), ensure_ascii=False) for c in current) + "\n]\n")
        print("%s: %d cases" % (name, len(current)))


if __name__ == "__main__":
    main(sys.argv[1:])

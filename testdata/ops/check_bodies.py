#!/usr/bin/env python3
"""Proves function bodies on other runtimes: each fixture's model, its function inlined, in ONNX Runtime and in onnx.reference.

usage: check_bodies.py OPS_TEST [--reference]     OPS_TEST: the program ops_test; needs onnx and onnxruntime

Runtimes with a kernel never run the body of its operator, so a wrong body would go unseen: here no kernel of the operator is left.
float32 results are compared with the fixtures' (1e-4), float16 ones with the operator's own kernel or the float32 results (2e-2).
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.inliner
import onnxruntime as ort
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = os.path.dirname(os.path.abspath(__file__))


def array(tensor):
    values = np.array([float(v) for v in tensor["v"]], np.float64) / tensor.get("q", 1)
    return values.reshape(tensor["d"]).astype(onnx.helper.tensor_dtype_to_np_dtype(tensor["t"]))


def fixtures(topic):
    with open(os.path.join(HERE, topic + ".json")) as file:
        return {case["name"]: case for case in json.load(file)}


def to_half(model):
    for value in model.graph.input:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for initializer in model.graph.initializer:
        if initializer.data_type == TensorProto.FLOAT:
            initializer.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(initializer).astype(np.float16), initializer.name))
    for value in model.graph.output:
        value.ClearField("type")
    return model


def run(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def inlined(model):
    model = onnx.inliner.inline_local_functions(model)
    assert not any(node.domain == "com.microsoft" for node in model.graph.node), "the function was not inlined"
    return model


def differences(case, names, results, tolerance):
    for name, found in zip(names, results):
        want = case["outputs"][name]
        if want is None:
            continue
        want = array(want)
        if found.shape != want.shape:
            yield "%s is %s, expected %s" % (name, found.shape, want.shape)
            continue
        found, want = found.astype(np.float64), want.astype(np.float64)
        for b, n in enumerate(case.get("rows", [])):
            found[b, n:] = want[b, n:] = 0
        same_infinity = np.isinf(want) & (found == want)
        error = np.abs(np.where(same_infinity, 0, found) - np.where(same_infinity, 0, want)) / np.maximum(1, np.abs(np.where(same_infinity, 1, want)))
        worst = float(error.max()) if error.size else 0.0
        if not worst <= tolerance:
            yield "%s differs by %.3g" % (name, worst)


def check(record, case, with_reference):
    model = onnx.parser.parse_model(record["model"])
    names = [o.name for o in model.graph.output]
    feeds = {name: array(t) for name, t in case["inputs"].items()}
    yield "float32", differences(case, names, run(inlined(model), feeds), 1e-4)
    if with_reference:
        yield "onnx.reference", differences(case, names, ReferenceEvaluator(inlined(model)).run(None, feeds), 1e-4)
    half = to_half(onnx.parser.parse_model(record["model"]))
    half_feeds = {name: a.astype(np.float16) if a.dtype == np.float32 else a for name, a in feeds.items()}
    results = run(inlined(half), half_feeds)
    own = case
    try:
        del half.functions[:]
        kernel = run(half, half_feeds)
        own = dict(case, outputs={n: None if case["outputs"][n] is None else {"t": 11, "d": list(k.shape), "v": list(k.astype(float).reshape(-1))} for n, k in zip(names, kernel)})
    except Exception:
        pass
    yield "float16", differences(own, names, results, 2e-2)


def main():
    with_reference = "--reference" in sys.argv
    program = [a for a in sys.argv[1:] if not a.startswith("--")][0]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bodies.json")
        subprocess.run([program, "--gtest_filter=FunctionDump.*"], env=dict(os.environ, MOBIUS_DUMP_BODIES=path), check=True, stdout=subprocess.DEVNULL)
        with open(path) as file:
            records = json.load(file)
    cases = {topic: fixtures(topic) for topic in {r["topic"] for r in records}}
    checked = failed = 0
    for record in records:
        case = cases[record["topic"]][record["name"]]
        place = "%s, opset %d" % (record["name"], record["opset"])
        try:
            for kind, found in check(record, case, with_reference):
                checked += 1
                for difference in found:
                    failed += 1
                    print("%s, %s: %s" % (place, kind, difference))
        except Exception as error:
            failed += 1
            print("%s: %s" % (place, str(error)[:400]))
    print("%d checks of %d models, %d failures" % (checked, len(records), failed))
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())

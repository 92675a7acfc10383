"""Models that the unit tests write, on ONNX Runtime's CPU provider: inputs and wanted results come along as JSON."""
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from conftest import PROGRAM

LEVELS = {"without optimisations": ort.GraphOptimizationLevel.ORT_DISABLE_ALL, "by default": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}


def written_by(program: str, test: str, variable: str, read, file: str = ""):
    """Runs one unit test that writes to the folder, or a file there, which the environment variable names; what `read` makes of the folder."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, variable: str(Path(folder) / file)}
        environment.pop("GTEST_OUTPUT", None)
        done = subprocess.run([PROGRAM.parent / program, f"--gtest_filter={test}"], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return read(Path(folder))


def numbers(tensor: dict) -> np.ndarray:
    return np.array([float(v) for v in tensor["values"]], np.float64).reshape(tensor["dims"])


def value(tensor: dict, element_type: int | None = None) -> ort.OrtValue:
    element_type = element_type or tensor["type"]
    array = np.ascontiguousarray(numbers(tensor).astype(onnx.helper.tensor_dtype_to_np_dtype(element_type)))
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, element_type)


def with_float_results(model: onnx.ModelProto) -> onnx.ModelProto:
    """NumPy knows no bfloat16: such results are cast behind the graph."""
    for output in model.graph.output:
        if output.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            model.graph.node.append(onnx.helper.make_node("Cast", [output.name], [output.name + "_float"], to=onnx.TensorProto.FLOAT))
            output.name += "_float"
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return model


def run(model: onnx.ModelProto, level, inputs: dict[str, ort.OrtValue]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [v.numpy().astype(np.float64) for v in session.run_with_ort_values(None, inputs)]


def assert_close(found: list, want: list, tolerance: float, what: str):
    """Relative to the largest element of a result, at least 1."""
    assert len(found) == len(want), what
    for i, (a, b) in enumerate(zip(found, want)):
        assert a.shape == b.shape, f"{what}: output {i} is {a.shape}, expected {b.shape}"
        if not a.size:
            continue
        scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
        error = np.where(a == b, 0, np.abs(a - b)) / scale
        worst = float("nan") if np.isnan(error).any() else float(error.max())
        assert worst <= tolerance, f"{what}: output {i} differs by {worst:.3g}"

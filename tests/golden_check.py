#!/usr/bin/env python3
"""Runs a package against a golden case and tells the largest relative error of each run.

usage: golden_check.py CASE PACKAGE [--backend onnxruntime|reference|openvino] [--run NAME] [--session COMMAND]

A case is a folder with a tiny checkpoint, case.json and io.safetensors. case.json lists runs; a run is a list of component
calls; a call is a list of steps that hand their cache on. io.safetensors holds every step's inputs and expected outputs under
"<run>.<component>.<step>.<name>". A package has model.onnx, or <component>/model.onnx.
The cache starts empty: an input of the graph that a step doesn't give has zeros with the batch filled in and no past; after a
step, present.X becomes past_key_values.X (or past_states.X, or past.X). Inputs that the graph doesn't have are left out.
COMMAND runs a model for us, as sessions/run_session.cpp and .mjs do; {model} in it is the model's path.
Errors are |got - want|max / |want|max, over the positions that "where" marks as valid. Not finite counts as infinite.
"""
import argparse
import json
import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


@dataclass
class Port:
    name: str
    dtype: np.dtype
    shape: list  # int where static, str for a symbol, None where unknown


class OnnxRuntime:
    TYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "int64": np.int64, "int32": np.int32, "bool": np.bool_,
             "uint8": np.uint8, "int8": np.int8}

    def __init__(self, model: Path, provider: str = "CPUExecutionProvider", threads: int = 1, optimize: bool = True):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(model, options, providers=[provider])
        self.inputs = [Port(i.name, self.TYPES[i.type[len("tensor("):-1]], i.shape) for i in self.session.get_inputs()]
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, feed: dict) -> dict:
        return dict(zip(self.outputs, self.session.run(None, feed)))


class Reference:
    """onnx.reference: Python, slow, and the standard's own word on what a graph means."""

    def __init__(self, model: Path):
        import onnx
        import onnx.reference

        proto = onnx.load(model)
        self.inputs = []
        for port in proto.graph.input:
            tensor = port.type.tensor_type
            shape = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
            self.inputs.append(Port(port.name, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape))
        self.outputs = [port.name for port in proto.graph.output]
        self.evaluator = onnx.reference.ReferenceEvaluator(proto)

    def run(self, feed: dict) -> dict:
        return dict(zip(self.outputs, self.evaluator.run(None, feed)))


class OpenVino:
    def __init__(self, model: Path):
        import openvino

        core = openvino.Core()
        graph = core.read_model(model)
        self.inputs = []
        for port in graph.inputs:
            # A zero here stands for "not known": the graph's own names for its dimensions are not kept.
            shape = [d.get_length() if d.is_static else None for d in port.partial_shape]
            self.inputs.append(Port(port.any_name, port.element_type.to_dtype(), shape))
        self.outputs = [port.any_name for port in graph.outputs]
        self.compiled = core.compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})

    def run(self, feed: dict) -> dict:
        results = self.compiled(feed)
        return {name: np.array(results[name]) for name in self.outputs}


BACKENDS = {"onnxruntime": OnnxRuntime, "reference": Reference, "openvino": OpenVino}


def load(package: Path, component: str, backend: str, **options):
    model = package / component / "model.onnx"
    return BACKENDS[backend](model if model.exists() else package / "model.onnx", **options)


def run_elsewhere(command: str) -> str:
    """Adds another program as a backend; its name."""
    from sessions.piped import Piped

    BACKENDS["session"] = lambda model: Piped([word.replace("{model}", str(model)) for word in shlex.split(command)])
    return "session"


def empty_cache(port: Port, batch: int) -> np.ndarray:
    # Caches are [batch, heads, past, width] or states [batch, ...]: the first dimension is the batch, any other open one is the past.
    shape = [d if isinstance(d, int) else batch if axis == 0 else 0 for axis, d in enumerate(port.shape)]
    return np.zeros(shape, port.dtype)


def cache_input(output: str, inputs) -> str | None:
    if not output.startswith("present"):
        return None
    rest = output.removeprefix("present")
    return next((name for head in ("past_key_values", "past_states", "past") if (name := head + rest) in inputs), None)


def step(graph, given: dict, cache: dict) -> dict:
    """Runs one step and updates the cache."""
    batch = next(iter(given.values())).shape[0]
    feed = {}
    for port in graph.inputs:
        value = given.get(port.name, cache.get(port.name))
        feed[port.name] = empty_cache(port, batch) if value is None else value.astype(port.dtype)
    results = graph.run(feed)
    for name, value in results.items():
        if past := cache_input(name, feed):
            cache[past] = value
    return results


def relative_error(got: np.ndarray, want: np.ndarray, valid: np.ndarray | None, may_flatten: bool) -> float:
    if got.shape != want.shape and may_flatten and got.size == want.size and got.shape[-1:] == want.shape[-1:]:
        got = got.reshape(want.shape)
    if got.shape != want.shape:
        raise ValueError(f"has shape {list(got.shape)}, expected {list(want.shape)}")
    if valid is not None:
        got, want = got[valid.astype(bool)], want[valid.astype(bool)]
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.isfinite(got).all():
        return math.inf
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-9))


class Case:
    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.description = json.loads((self.folder / "case.json").read_text())
        self.io = load_file(self.folder / "io.safetensors")

    @property
    def runs(self) -> list[str]:
        return list(self.description["runs"])

    @property
    def allowed_error(self) -> float:
        return self.description["max_relative_error"]

    def results(self, run: str, package: Path, backend: str = "onnxruntime", graphs: dict | None = None):
        """Each step's outputs of one run, as (name in io, value, mask of what is valid, whether it may be flat). `graphs` keeps loaded components."""
        graphs = {} if graphs is None else graphs
        for call in self.description["runs"][run]:
            component = call["component"]
            if component not in graphs:
                graphs[component] = load(Path(package), component, backend)
            cache: dict = {}
            for number, expected in enumerate(call["steps"]):
                place = f"{run}.{component}.{number}"
                given = {name: self.io[f"{place}.{name}"] for name in expected["inputs"]}
                results = step(graphs[component], given, cache)
                for name in expected["outputs"]:
                    if name not in results:
                        raise ValueError(f"{place}: no output {name}, found {list(results)[:4]}")
                    yield f"{place}.{name}", results[name], self._valid(place, expected, name), name in expected.get("flat", [])

    def _valid(self, place: str, expected: dict, name: str) -> np.ndarray | None:
        where = expected.get("where", {}).get(name)
        return self.io[f"{place}.{where}"] if where else None

    def error(self, run: str, package: Path, backend: str = "onnxruntime", graphs: dict | None = None) -> float:
        """The largest relative error of all outputs of one run."""
        worst = 0.0
        for place, got, valid, may_flatten in self.results(run, package, backend, graphs):
            try:
                worst = max(worst, relative_error(got, self.io[place], valid, may_flatten))
            except ValueError as reason:
                raise ValueError(f"{place}: {reason}") from None
        return worst

    def difference(self, run: str, package: Path, graphs: dict, others: dict) -> float:
        """The largest relative difference between what two sets of loaded components give."""
        pairs = zip(self.results(run, package, graphs=graphs), self.results(run, package, graphs=others))
        return max(relative_error(got, want, valid, False) for (_, got, valid, _), (_, want, _, _) in pairs)

    def greedy(self, package: Path, backend: str = "onnxruntime") -> list[tuple[list[int], list[int]]]:
        """What the package generates for the case's prompts, each beside what is expected."""
        graph = load(Path(package), "model", backend)
        expected = self.description["greedy"]
        return [(generate(graph, prompt, len(ids)), ids) for prompt, ids in zip(expected["prompts"], expected["ids"])]


def generate(graph, prompt: list[int], count: int, on_logits=None) -> list[int]:
    """`count` greedy tokens after a prompt, one row, with the cache. `on_logits` sees the logits of each new token."""
    cache: dict = {}
    tokens, new = [], list(prompt)
    past = 0
    for _ in range(count):
        total = past + len(new)
        given = {"input_ids": np.array([new], np.int64), "attention_mask": np.ones((1, total), np.int64),
                 "position_ids": np.arange(past, total, dtype=np.int64)[None]}
        logits = step(graph, given, cache)["logits"][0, -1]
        if on_logits:
            on_logits(logits)
        tokens.append(int(np.argmax(logits)))
        past, new = total, tokens[-1:]
    return tokens


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", type=Path)
    parser.add_argument("package", type=Path)
    parser.add_argument("--backend", choices=BACKENDS, default="onnxruntime")
    parser.add_argument("--session")
    parser.add_argument("--run")
    options = parser.parse_args()
    if options.session:
        options.backend = run_elsewhere(options.session)

    case, graphs, worst = Case(options.case), {}, 0.0
    for run in [options.run] if options.run else case.runs:
        error = case.error(run, options.package, options.backend, graphs)
        print(f"{run}: {error:.2e}")
        worst = max(worst, error)
    print("pass" if worst <= case.allowed_error else "FAIL", f"{options.case.name}: {worst:.2e}, allowed {case.allowed_error:.0e}")
    return 0 if worst <= case.allowed_error else 1


if __name__ == "__main__":
    sys.exit(main())

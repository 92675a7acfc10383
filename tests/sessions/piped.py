"""A model run by another program: run_session.cpp or run_session.mjs, which say what goes through the pipes."""
import json
import subprocess
from dataclasses import dataclass

import numpy as np

DTYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "int64": np.int64, "int32": np.int32, "bool": np.bool_}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


@dataclass
class Port:
    name: str
    dtype: np.dtype
    shape: list


class Piped:
    """As golden_check's runtimes: inputs, outputs, run(feed)."""

    def __init__(self, command: list[str], env: dict | None = None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        ports = self._answer()
        self.version = ports["version"]
        self.inputs = [Port(i["name"], np.dtype(DTYPES[i["dtype"]]), i["shape"]) for i in ports["inputs"]]
        self.outputs = ports["outputs"]

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended without an answer, exit code {self.process.wait()}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def run(self, feed: dict) -> dict:
        arrays = {name: np.ascontiguousarray(value) for name, value in feed.items()}
        header = [{"name": name, "dtype": NAMES[value.dtype], "dims": list(value.shape)} for name, value in arrays.items()]
        self.process.stdin.write(json.dumps(header).encode() + b"\n" + b"".join(value.tobytes() for value in arrays.values()))
        self.process.stdin.flush()
        results = {}
        for entry in self._answer():
            dtype, dims = np.dtype(DTYPES[entry["dtype"]]), entry["dims"]
            data = self.process.stdout.read(dtype.itemsize * int(np.prod(dims)))
            results[entry["name"]] = np.frombuffer(data, dtype).reshape(dims)
        return results

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

"""No weight is silently unused: with any tensor of a checkpoint changed (each element by a tenth, up or down at random), its case fails.

A weight that is read but multiplied by nothing, or left at its initial value, passes every comparison of unchanged numbers that happens not to
need it. UNMOVED names what such a change can't show, with the reason and a run that proves it; a tensor there that does move the output fails as well.
"""
import fnmatch
import json
import os
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import mobius
import numpy as np
import pytest
from golden_check import Case, OnnxRuntime
from test_families import FOLDERS

NUMPY = {"F32": np.float32, "F16": np.float16}
Change = Callable[[np.ndarray], np.ndarray]


def by_a_tenth(name: str) -> Change:
    draw = np.random.default_rng(random.Random(name).getrandbits(32))
    return lambda values: values * (1 + 0.1 * draw.choice([-1.0, 1.0], len(values)))


def times(factor: float) -> Change:
    return lambda values: values * np.float64(factor)


def plus(amount: float, at: int | slice = slice(None)) -> Change:
    def change(values):
        values = values.copy()
        values[at] += amount
        return values
    return change


class File:
    """A safetensors file as bytes, and where its tensors lie."""

    def __init__(self, path: Path):
        self.path, self.bytes = path, path.read_bytes()
        length = int.from_bytes(self.bytes[:8], "little")
        header = json.loads(self.bytes[8:8 + length])
        self.tensors = {name: (t["dtype"], *(8 + length + at for at in t["data_offsets"])) for name, t in header.items() if name != "__metadata__"}

    def changed(self, name: str, change: Change, data: bytes) -> bytes:
        dtype, begin, end = self.tensors[name]
        if dtype == "BF16":
            values = (np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(data[begin:end], NUMPY[dtype])
        values = change(values).astype(values.dtype)
        part = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes() if dtype == "BF16" else values.tobytes()
        return data[:begin] + part + data[end:]


class Checkpoint:
    """The case's, of which some tensors may be changed. Its models are built in `folder`."""

    def __init__(self, case: Case, folder: Path):
        self.case, self.folder = case, folder
        self.files = [File(path) for path in sorted(case.folder.glob("*.safetensors")) if path.name != "io.safetensors"]

    def weights(self) -> list[str]:
        return [name for file in self.files for name, (dtype, *_) in file.tensors.items() if dtype in (*NUMPY, "BF16")]

    def size(self, name: str) -> int:
        dtype, begin, end = next(file.tensors[name] for file in self.files if name in file.tensors)
        return (end - begin) // (4 if dtype == "F32" else 2)

    def model(self, changes: dict[str, Change]) -> bytes:
        """The graph with its weights in it."""
        for path in self.case.folder.iterdir():
            (self.folder / path.name).unlink(missing_ok=True)
            if path.name != "io.safetensors":
                os.symlink(path, self.folder / path.name)
        for file in self.files:
            data = file.bytes
            for name, change in changes.items():
                data = file.changed(name, change, data) if name in file.tensors else data
            if data is not file.bytes:
                (self.folder / file.path.name).unlink()
                (self.folder / file.path.name).write_bytes(data)
        return mobius.build(self.folder, execution_provider="default", dtype="f32")["model"].to_bytes()

    def moves(self, changes: dict[str, Change]) -> bool:
        """Whether some run of the case fails, or the checkpoint is refused by the name of what has changed."""
        try:
            graphs = {"model": OnnxRuntime(self.model(changes))}
        except mobius.UnsupportedError as refused:
            return any(name in str(refused) for name in changes)
        return any(not self.case.error(run, self.folder, graphs=graphs) <= self.case.allowed_error for run in self.case.runs)

    def differ(self, some: dict[str, Change], others: dict[str, Change]) -> bool:
        """Whether two changes of the same checkpoint give different results."""
        a, b = ({"model": OnnxRuntime(self.model(changes))} for changes in (some, others))
        return any(not self.case.difference(run, self.folder, a, b) <= self.case.allowed_error for run in self.case.runs)


# ── what can't show, and how that is seen ────────────────────────────────────────────────────────────────────────────────


def is_read(checkpoint: Checkpoint, name: str) -> bool:
    return checkpoint.model({name: plus(1)}) != checkpoint.model({})


def tips_when_raised(checkpoint: Checkpoint, name: str) -> bool:
    return any(checkpoint.moves({name: plus(10, at)}) for at in range(checkpoint.size(name)))


def moves_when_chosen(checkpoint: Checkpoint, name: str) -> bool:
    """With the bias of this expert raised, so that it is among the chosen."""
    layer, expert = re.fullmatch(r"(.*)\.experts\.(\d+)\..*", name).groups()
    bias = next(n for n in checkpoint.weights() if n.startswith(layer) and n.endswith("e_score_correction_bias"))
    chosen = {bias: plus(10, int(expert))}
    return checkpoint.differ(chosen, chosen | {name: by_a_tenth(name)})


@dataclass
class Reason:
    why: str
    proof: Callable[[Checkpoint, str], bool]


NO_ROPE = Reason("a key's bias adds the same to all scores of a query where keys are not rotated: softmax does not see it, however large it is",
                 lambda c, name: is_read(c, name) and not c.moves({name: plus(1)}))
UNCHOSEN = Reason("no token of the case is sent to this expert; where its bias is raised they are, and it matters", moves_when_chosen)
UNTIPPED = Reason("it steers the choice of experts only, and a tenth of it tips none here; ten more for one of them does", tips_when_raised)
PASSES = Reason("zero experts: they give a token back as it is; transformers keeps gate and up for them and never uses them, nor are they read here",
                lambda c, name: c.model({name: times(np.nan)}) == c.model({}))
GUARD = Reason("xIELU's guard near zero is 1e-6: a tenth of it is below the tolerance, a million times of it is not", lambda c, name: c.moves({name: times(1e6)}))
NORMED = Reason("the last layer's: the norm behind it takes any factor out again but its sign",
                lambda c, name: not c.moves({name: times(3)}) and c.moves({name: times(-1)}))

# case -> {tensor (glob): the reason}.
UNMOVED: dict[str, dict[str, Reason]] = {
    "apertus": {"*.act_fn.eps": GUARD},
    "biogpt": {"*.k_proj.bias": NO_ROPE},
    "ctrl": {"*.Wk.bias": NO_ROPE},
    "opt": {"*.k_proj.bias": NO_ROPE},
    "xglm": {"*.k_proj.bias": NO_ROPE},
    "xlm": {"*.k_lin.bias": NO_ROPE},
    "deepseek_v3_yarn": {"model.layers.1.mlp.experts.[01].*": UNCHOSEN, "model.layers.1.mlp.gate.e_score_correction_bias": UNTIPPED},
    "longcat_flash": {"model.layers.0.mlp.experts.[23].*": UNCHOSEN, "model.layers.0.mlp.router.e_score_correction_bias": UNTIPPED,
                      "model.layers.0.mlp.experts.[45].*": PASSES},
    "ernie4_5_moe": {"model.layers.1.mlp.moe_statics.e_score_correction_bias": UNTIPPED},
    "glm4_moe": {"model.layers.1.mlp.gate.e_score_correction_bias": UNTIPPED},
    "gemma4_text": {"model.layers.3.layer_scalar": NORMED},
}


def reason(case: str, tensor: str) -> Reason | None:
    return next((why for names, why in UNMOVED.get(case, {}).items() if fnmatch.fnmatchcase(tensor, names)), None)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in FOLDERS])
def test_every_weight_moves_the_output(name, tmp_path):
    checkpoint = Checkpoint(Case(FOLDERS[name]), tmp_path)
    found = {tensor: checkpoint.moves({tensor: by_a_tenth(tensor)}) for tensor in checkpoint.weights()}
    assert len(found) > 5
    unmoved = [tensor for tensor, moved in found.items() if not moved]
    assert not [t for t in unmoved if not reason(name, t)], "these change nothing"
    assert not [t for t in found if t not in unmoved and reason(name, t)], "these are said to change nothing"
    assert not [f"{t}: {reason(name, t).why}" for t in unmoved if not reason(name, t).proof(checkpoint, t)], "these reasons do not hold"

"""No weight is silently unused: with any tensor of a checkpoint changed (each element by a tenth, up or down at random), its case fails.

A weight that is read but multiplied by nothing, or left at its initial value, passes every comparison of unchanged numbers that happens not to
need it. UNMOVED names what can't show, with the reason; a tensor there that does move the output fails as well.
"""
import fnmatch
import json
import os
import random
from pathlib import Path

import mobius
import numpy as np
import pytest
from golden_check import Case, OnnxRuntime
from test_families import FOLDERS

# case (glob) -> {tensor (glob): why its changes can't be seen}.
NO_ROPE = "a key's bias adds the same to all scores of a query where keys are not rotated: softmax does not see it"
UNCHOSEN = "no token of the case is sent to this expert"
NOT_READ = "computed from the config; a checkpoint with other values would be built wrongly"
UNTIPPED = "it steers the choice of experts only, and a tenth of it tips none here"
UNMOVED: dict[str, dict[str, str]] = {
    "apertus": {"*.act_fn.eps": "xIELU's guard near zero is 1e-6: a tenth of it is below the tolerance"},
    "biogpt": {"*.k_proj.bias": NO_ROPE},
    "ctrl": {"*.Wk.bias": NO_ROPE},
    "opt": {"*.k_proj.bias": NO_ROPE},
    "xglm": {"*.k_proj.bias": NO_ROPE},
    "xlm": {"*.k_lin.bias": NO_ROPE},
    "deepseek_v3_yarn": {"model.layers.1.mlp.experts.[01].*": UNCHOSEN, "model.layers.1.mlp.gate.e_score_correction_bias": UNTIPPED},
    "longcat_flash": {"model.layers.0.mlp.experts.[23].*": UNCHOSEN, "model.layers.0.mlp.router.e_score_correction_bias": UNTIPPED,
                      "model.layers.0.mlp.experts.[45].*": "zero experts: they give a token back as it is; transformers keeps gate and up for them and never uses them"},
    "ernie4_5_moe": {"model.layers.1.mlp.moe_statics.e_score_correction_bias": UNTIPPED},
    "glm4_moe": {"model.layers.1.mlp.gate.e_score_correction_bias": UNTIPPED},
    "gemma4_text": {"model.layers.3.layer_scalar": "the last layer's: the norm behind it takes any factor out again"},
    # A gap, not maths: transformers loads these buffers, we compute the decay from the config and don't read them.
    "minimax": {"*_decay": NOT_READ, "*.slope_rate": NOT_READ},
}
NUMPY = {"F32": np.float32, "F16": np.float16}


class File:
    """A safetensors file as bytes, and where its tensors lie."""

    def __init__(self, path: Path):
        self.path, self.bytes = path, path.read_bytes()
        length = int.from_bytes(self.bytes[:8], "little")
        header = json.loads(self.bytes[8:8 + length])
        self.tensors = {name: (t["dtype"], *(8 + length + at for at in t["data_offsets"])) for name, t in header.items() if name != "__metadata__"}

    def changed(self, name: str) -> bytes:
        dtype, begin, end = self.tensors[name]
        draw = np.random.default_rng(random.Random(name).getrandbits(32))
        if dtype == "BF16":
            values = (np.frombuffer(self.bytes[begin:end], np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(self.bytes[begin:end], NUMPY[dtype])
        values = (values * (1 + 0.1 * draw.choice([-1.0, 1.0], len(values)))).astype(values.dtype)
        data = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes() if dtype == "BF16" else values.tobytes()
        return self.bytes[:begin] + data + self.bytes[end:]


def weights_of(folder: Path) -> list[tuple[File, str]]:
    files = [File(path) for path in sorted(folder.glob("*.safetensors")) if path.name != "io.safetensors"]
    return [(file, name) for file in files for name, (dtype, *_) in file.tensors.items() if dtype in (*NUMPY, "BF16")]


def moves(case: Case, file: File, name: str, folder: Path) -> bool:
    """Whether some run of the case fails once the tensor has changed."""
    for path in case.folder.iterdir():
        if path.name != file.path.name and path.name != "io.safetensors" and not (folder / path.name).exists():
            os.symlink(path, folder / path.name)
    (folder / file.path.name).unlink(missing_ok=True)
    (folder / file.path.name).write_bytes(file.changed(name))
    model = mobius.build(folder, execution_provider="default", dtype="f32")["model"].to_bytes()
    (folder / file.path.name).unlink()
    graphs = {"model": OnnxRuntime(model)}
    return any(not case.error(run, folder, graphs=graphs) <= case.allowed_error for run in case.runs)


def reason(case: str, tensor: str) -> str | None:
    return next((why for cases, tensors in UNMOVED.items() if fnmatch.fnmatchcase(case, cases)
                 for names, why in tensors.items() if fnmatch.fnmatchcase(tensor, names)), None)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in FOLDERS])
def test_every_weight_moves_the_output(name, tmp_path):
    case = Case(FOLDERS[name])
    found = {tensor: moves(case, file, tensor, tmp_path) for file, tensor in weights_of(case.folder)}
    assert len(found) > 5
    assert not [t for t, moved in found.items() if not moved and not reason(name, t)], "these change nothing"
    assert not [t for t, moved in found.items() if moved and reason(name, t)], "these are said to change nothing"

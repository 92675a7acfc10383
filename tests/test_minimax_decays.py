"""MiniMax's checkpoints hold how fast each head forgets four times over: the stored rates are what a graph computes with, and the tables must say the same."""
import json

import mobius
import numpy as np
import pytest
from golden_check import Case, OnnxRuntime
from safetensors.numpy import load_file
from test_families import FOLDERS

pytestmark = pytest.mark.xdist_group("minimax")
AT = "model.layers.0.self_attn."
TABLES = ["query_decay", "key_decay", "diagonal_decay"]


def tables_of(rates: np.ndarray, block: int) -> dict[str, np.ndarray]:
    """As transformers computes them, from [heads, 1, 1]."""
    n = np.arange(1, block + 1)[:, None]
    between = n - n.T
    return {"slope_rate": rates, "query_decay": np.exp(-rates * n), "key_decay": np.exp(-rates * (block - n)),
            "diagonal_decay": np.where(between >= 0, np.exp(-rates * between), 0)[None]}


class Checkpoint:
    """The case's own, to be changed."""

    def __init__(self, folder):
        self.case, self.folder = Case(FOLDERS["minimax"]), folder
        self.tensors = load_file(self.case.folder / "model.safetensors")
        config = json.loads((self.case.folder / "config.json").read_text())
        self.block, self.heads = config["block_size"], config["num_attention_heads"]
        self.rates = self.tensors[AT + "slope_rate"].astype(np.float64)
        (folder / "config.json").write_text(json.dumps(config))

    def replace(self, decays: dict[str, np.ndarray]):
        self.tensors |= {AT + name: values.astype(np.float32) for name, values in decays.items()}

    def build(self) -> "mobius.Model":
        write(self.folder / "model.safetensors", self.tensors)
        return mobius.build(self.folder, execution_provider="default", dtype="f32")["model"]

    def error(self) -> float:
        graphs = {"model": OnnxRuntime(self.build().to_bytes())}
        return max(self.case.error(run, self.folder, graphs=graphs) for run in self.case.runs)


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path)


def test_the_stored_rates_are_taken(checkpoint):
    rates = checkpoint.rates * 1.5
    checkpoint.replace(tables_of(rates, checkpoint.block))
    taken = {name: np.asarray(t) for name, t in checkpoint.build().graph.initializers.items() if name.endswith("self_attn.decay")}
    assert list(taken) == [AT + "decay"]
    assert np.array_equal(taken[AT + "decay"].ravel(), -rates.astype(np.float32).ravel())
    assert checkpoint.error() > 10 * checkpoint.case.allowed_error


@pytest.mark.parametrize("name", ["slope_rate", *TABLES])
def test_rates_and_tables_that_differ_are_refused_by_name(name, checkpoint):
    checkpoint.tensors[AT + name] = checkpoint.tensors[AT + name] * np.float32(1.001)
    with pytest.raises(mobius.UnsupportedError, match=AT.replace(".", r"\.") + name):
        checkpoint.build()


def test_one_element_that_differs_is_refused(checkpoint):
    checkpoint.tensors[AT + "diagonal_decay"][0, 3, 2, 3] = 1e-3
    with pytest.raises(mobius.UnsupportedError, match="diagonal_decay: element 59 is 0.001, but .*slope_rate gives 0"):
        checkpoint.build()


def test_a_table_of_another_block_size_is_refused(checkpoint):
    checkpoint.replace({"query_decay": tables_of(checkpoint.rates, 5)["query_decay"]})
    with pytest.raises(ValueError, match=r"query_decay is \[4, 5, 1\], expected \[4, 4, 1\]"):
        checkpoint.build()


@pytest.mark.parametrize("missing", [["slope_rate"], TABLES, ["slope_rate", *TABLES]])
def test_what_is_missing_follows_from_the_config(missing, checkpoint):
    for name in missing:
        del checkpoint.tensors[AT + name]
    assert checkpoint.error() <= checkpoint.case.allowed_error


def test_other_rates_without_their_tables_are_refused(checkpoint):
    checkpoint.replace(tables_of(checkpoint.rates * 1.5, checkpoint.block))
    del checkpoint.tensors[AT + "key_decay"]
    with pytest.raises(mobius.UnsupportedError, match="slope_rate is not what the config gives, but .*key_decay is missing"):
        checkpoint.build()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_rounding_is_no_difference(dtype, checkpoint):
    """As in a model that was made in this type: its rates are powers of a rounded number."""
    narrow, wide = NARROW[dtype]
    base = wide(narrow(np.array([0.5 ** (8 / checkpoint.heads)])))
    rates = wide(narrow(wide(narrow(base ** np.arange(1, checkpoint.heads + 1))) * (1 + 1e-5)))[:, None, None]
    checkpoint.tensors |= {AT + name: narrow(values) for name, values in tables_of(rates, checkpoint.block).items()}
    checkpoint.build()
    for name in TABLES:
        del checkpoint.tensors[AT + name]
    checkpoint.build()


def to_bf16(x: np.ndarray) -> np.ndarray:
    """As the upper half of float32, rounded to even."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


NARROW = {"f16": (lambda x: x.astype(np.float16), lambda x: x.astype(np.float64)),
          "bf16": (to_bf16, lambda x: (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64))}


def write(path, tensors: dict[str, np.ndarray]) -> None:
    """A safetensors file; uint16 stands for bf16, which numpy has not."""
    header, end = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": {"f": f"F{8 * values.itemsize}", "u": "BF16"}[values.dtype.kind], "shape": list(values.shape),
                        "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(values.tobytes() for values in tensors.values()))

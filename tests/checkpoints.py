"""Small checkpoints to spoil: a valid one, and the bytes that files are made of."""
import json
import os
import shutil
import struct
from pathlib import Path

from conftest import TESTDATA

GOLDEN = Path(os.environ.get("MOBIUS_GOLDEN", TESTDATA / "golden"))
LLAMA = next((folder for folder in (TESTDATA / "golden" / "llama", GOLDEN / "llama") if folder.exists()), TESTDATA / "golden" / "llama")
SHARDED = next((folder for folder in (TESTDATA / "golden" / "llama_sharded", GOLDEN / "llama_sharded") if folder.exists()), None)

CONFIG = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1,
    "vocab_size": 40, "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "I64": 8, "U8": 1}


def shapes(config: dict = CONFIG) -> dict[str, list[int]]:
    """The tensors of a Llama checkpoint."""
    hidden, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    out = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = [vocab, hidden]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        out |= {
            layer + "self_attn.q_proj.weight": [hidden, hidden], layer + "self_attn.k_proj.weight": [kv, hidden],
            layer + "self_attn.v_proj.weight": [kv, hidden], layer + "self_attn.o_proj.weight": [hidden, hidden],
            layer + "mlp.gate_proj.weight": [ffn, hidden], layer + "mlp.up_proj.weight": [ffn, hidden], layer + "mlp.down_proj.weight": [hidden, ffn],
            layer + "input_layernorm.weight": [hidden], layer + "post_attention_layernorm.weight": [hidden],
        }
    return out


def header_of(tensors: dict[str, list[int]], dtype: str = "F32") -> dict:
    header, end = {}, 0
    for name, shape in tensors.items():
        size = BYTES[dtype]
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    return header


def write_safetensors(path: Path, header: dict, size: int | None = None) -> None:
    """Zeros under this header, as a sparse file: large ones cost nothing."""
    text = json.dumps(header).encode()
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0) if size is None else size
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def make_checkpoint(folder: Path, config: dict | None = None, dtype: str = "F32", tensors: dict | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG | (config or {})
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", header_of(tensors or shapes(config), dtype))
    return folder


def copy_of(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

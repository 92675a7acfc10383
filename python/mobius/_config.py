"""ArchitectureConfig: the sizes and switches of a decoder."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from mobius import _arguments, _native
from mobius._dtypes import DataType, as_dtype
from mobius._errors import InvalidArgumentError, NotFoundError

_REQUIRED = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_ABSENT = -42  # what the original's configs have for "not given"


@dataclasses.dataclass
class ArchitectureConfig:
    """A Llama-style decoder's sizes and switches; names are those of config.json.

        config = ArchitectureConfig(vocab_size=32000, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
        config = ArchitectureConfig.from_pretrained("models/Qwen2.5-0.5B")

    Checked when a module is made of it; ValueError then names the field.
    """

    vocab_size: int = _ABSENT
    hidden_size: int = _ABSENT
    intermediate_size: int = _ABSENT
    num_hidden_layers: int = _ABSENT
    num_attention_heads: int = _ABSENT
    num_key_value_heads: int = _ABSENT  # absent: as many as query heads
    head_dim: int = _ABSENT  # absent: hidden_size / num_attention_heads
    hidden_act: str | None = None  # absent: silu
    pad_token_id: int = _ABSENT
    tie_word_embeddings: bool = False
    attn_qkv_bias: bool = False
    attn_o_bias: bool = False
    dtype: DataType = DataType.FLOAT
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: dict | None = None  # as in config.json: {"rope_type": "llama3", "factor": 8.0, ...}
    mlp_bias: bool = False
    sliding_window: int | None = None
    layer_types: list[str] | None = None  # "full_attention" or "sliding_attention" for each layer
    model_type: str = "custom"

    def __post_init__(self) -> None:
        self.dtype = as_dtype(self.dtype)

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> ArchitectureConfig:
        """From what a config.json holds; keys that are not fields here are left out."""
        _arguments.mapping("config", config, "a dict, as in config.json")
        known = {f.name for f in dataclasses.fields(cls)}
        values = {key: value for key, value in config.items() if key in known and value is not None}
        rope = config.get("rope_parameters")
        if isinstance(rope, Mapping):
            values.setdefault("rope_theta", rope.get("rope_theta", 10000.0))
            if rope.get("rope_type", "default") != "default":
                values.setdefault("rope_scaling", dict(rope))
        values.setdefault("dtype", config.get("torch_dtype") or DataType.FLOAT)
        bias = bool(config.get("attention_bias", config.get("model_type") == "qwen2"))
        values.setdefault("attn_qkv_bias", bias)
        values.setdefault("attn_o_bias", bool(config.get("attention_bias", False)))
        if config.get("use_sliding_window") is False:
            values.pop("sliding_window", None)
        return cls(**values)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike) -> ArchitectureConfig:
        """From the config.json of a checkpoint's folder."""
        path = os.path.join(os.fsdecode(_arguments.path("folder", folder)), "config.json")
        if not os.path.exists(path):
            raise NotFoundError(f"{path}: no such file")
        with open(path, encoding="utf-8") as file:
            return cls.from_dict(json.load(file))

    def to_dict(self) -> dict[str, Any]:
        """With config.json's names; what is not given is left out."""
        out = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        dtype = as_dtype(self.dtype)
        out["dtype"] = dtype.name.lower() if dtype != DataType.FLOAT else "float32"
        return {key: value for key, value in out.items() if value is not None and value != _ABSENT}

    def native(self) -> _native.Config:
        """As the library reads it. ValueError: a size is missing or contradicts another."""
        missing = [name for name in _REQUIRED if getattr(self, name) in (_ABSENT, None)]
        if missing:
            raise InvalidArgumentError(f"ArchitectureConfig: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not given")
        return _native.Config(json.dumps(self.to_dict()), as_dtype(self.dtype))

"""The parts of a decoder: attention, MLP, layers. Each can be replaced by one's own, or be a part of it."""

from __future__ import annotations

from typing import Any

from mobius import _arguments
from mobius._config import ArchitectureConfig
from mobius.nn import Embedding, LayerNorm, Linear, Module, RMSNorm

__all__ = ["Attention", "DecoderLayer", "Embedding", "LayerNorm", "Linear", "MLP", "RMSNorm"]


class Attention(Module):
    """Grouped-query attention with rotary positions; `at` holds masks, positions and the cache.

    forward gives the output and the layer's new (key, value).
    """

    def __init__(self, config: ArchitectureConfig, layer_idx: int = 0, *, scale: float | None = None, softcap: float = 0.0) -> None:
        super().__init__()
        self._native_config = config.native()
        self.num_heads, self.num_kv_heads = config.num_attention_heads, self._native_config.num_key_value_heads
        self.head_dim, self.window = self._native_config.head_dim, self._native_config.window(_arguments.integer("layer_idx", layer_idx, 0))
        self.scale, self.softcap = scale, softcap
        q_size, kv_size = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.q_proj = Linear(config.hidden_size, q_size, config.attn_qkv_bias)
        self.k_proj = Linear(config.hidden_size, kv_size, config.attn_qkv_bias)
        self.v_proj = Linear(config.hidden_size, kv_size, config.attn_qkv_bias)
        self.o_proj = Linear(q_size, config.hidden_size, config.attn_o_bias)

    def forward(self, op: Any, hidden_states: Any, at: Any) -> tuple[Any, tuple[Any, Any]]:
        query = self.rope(at, self.q_proj(op, hidden_states), self.num_heads)
        key = self.rope(at, self.k_proj(op, hidden_states), self.num_kv_heads)
        attended = self.attend(at, query, key, self.v_proj(op, hidden_states))
        return self.o_proj(op, attended), at.present

    def rope(self, at: Any, x: Any, heads: int) -> Any:
        """Rotary positions for every head of x [batch, sequence, heads · head_dim]."""
        return at.rope(x, heads, self._native_config)

    def attend(self, at: Any, query: Any, key: Any, value: Any) -> Any:
        """Causal attention over the cache and these keys and values."""
        return at.attend(query, key, value, self.num_heads, self.num_kv_heads, self.head_dim, self.window, self.scale, self.softcap)


class MLP(Module):
    """down_proj(act(gate_proj(x)) · up_proj(x))"""

    def __init__(self, config: ArchitectureConfig) -> None:
        super().__init__()
        self.hidden_act = config.hidden_act or "silu"
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size, config.mlp_bias)
        self.up_proj = Linear(config.hidden_size, config.intermediate_size, config.mlp_bias)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, config.mlp_bias)

    def forward(self, op: Any, x: Any) -> Any:
        gate = op.activation(self.hidden_act, self.gate_proj(op, x))
        return self.down_proj(op, op.Mul(gate, self.up_proj(op, x)))


class DecoderLayer(Module):
    """h = x + attention(norm(x));  h + mlp(norm(h))"""

    def __init__(self, config: ArchitectureConfig, layer_idx: int = 0) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer_idx)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, op: Any, hidden_states: Any, at: Any) -> tuple[Any, Any]:
        return self._forward_pre_norm(op, hidden_states, at)

    def _forward_pre_norm(self, op: Any, hidden_states: Any, at: Any) -> tuple[Any, Any]:
        residual = hidden_states
        attn_output, present_key_value = self.self_attn(op, self.input_layernorm(op, hidden_states), at)
        hidden_states = op.Add(residual, attn_output)
        mlp_output = self.mlp(op, self.post_attention_layernorm(op, hidden_states))
        return op.Add(hidden_states, mlp_output), present_key_value

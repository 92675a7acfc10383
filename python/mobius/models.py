"""Models as modules, to build from or to change."""

from __future__ import annotations

from typing import Any

from mobius._config import ArchitectureConfig
from mobius._errors import UnsupportedError
from mobius.components import DecoderLayer
from mobius.nn import Embedding, Linear, Module, ModuleList, RMSNorm

__all__ = ["CausalLMModel", "TextModel"]


# Families whose layers are these, apart from biases and windows, which the config says.
_LLAMA_STYLE = ("llama", "mistral", "qwen2")


def _refuse_others(model_type: str) -> None:
    """Weights of another architecture may have the same names, and would give wrong numbers."""
    from mobius._registry import registry

    if model_type in registry and registry[model_type].family not in _LLAMA_STYLE:
        raise UnsupportedError(f"CausalLMModel is a Llama-style decoder, and model_type '{model_type}' is another architecture: mobius.build builds it; "
                               "in a module of your own, write its layers")


class TextModel(Module):
    """Token embedding, layers, final norm."""

    def __init__(self, config: ArchitectureConfig, layer_class: type[Module] = DecoderLayer) -> None:
        super().__init__()
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = ModuleList(layer_class(config, i) for i in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, op: Any, input_ids: Any, at: Any) -> Any:
        hidden_states = self.embed_tokens(op, input_ids)
        for layer in self.layers:
            result = layer(op, hidden_states, at)
            hidden_states = result[0] if isinstance(result, tuple) else result
        return self.norm(op, hidden_states)


class CausalLMModel(Module):
    """A Llama-style decoder of any sizes: input_ids [batch, sequence] in, logits [batch, sequence, vocab_size] out.

        config = ArchitectureConfig(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
        package = mobius.build_from_module(CausalLMModel(config), config, execution_provider="cuda")

    `layer_class`: a decoder layer of one's own, made as layer_class(config, layer_idx) and called as layer(op, hidden_states, at).
    """

    def __init__(self, config: ArchitectureConfig, layer_class: type[Module] = DecoderLayer) -> None:
        super().__init__()
        config.native()  # what is missing or contradictory is told here
        if type(self) is CausalLMModel and layer_class is DecoderLayer:
            _refuse_others(config.model_type)
        self.config = config
        self.model = TextModel(config, layer_class)
        self.lm_head = Linear(config.hidden_size, config.vocab_size)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, op: Any, input_ids: Any, at: Any) -> Any:
        return self.lm_head(op, self.model(op, input_ids, at))

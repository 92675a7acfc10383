"""A decoder whose layers are written in Python, built for three execution providers.

    python examples/python_layer/layer.py CHECKPOINT OUT      # CHECKPOINT: a Llama's folder; writes OUT/default, OUT/cpu, OUT/onnx-standard

The layer: attention and MLP read the same norm and are added together (as in GPT-J), and the MLP's gate is a tanh that is scaled by a number of
its own, squared: down(tanh(gate(x))² · up(x)). What is the library's is used (attention with its cache, rope and masks; norms; projections), the
rest is operators. Nothing here speaks of execution providers: cpu gets GroupQueryAttention, onnx-standard standard operators alone.
"""
import sys

import mobius
from mobius import nn
from mobius.components import Attention
from mobius.models import CausalLMModel


class SquaredGate(nn.Module):
    def __init__(self, config):
        super().__init__()
        # Attributes carry the checkpoint's names: model.layers.0.mlp.gate_proj.weight, ...
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, op, x):  # [batch, sequence, hidden] -> the same
        gate = op.Tanh(self.gate_proj(op, x))
        return self.down_proj(op, op.Mul(gate, gate) * self.up_proj(op, x))


class ParallelLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer_idx)
        self.mlp = SquaredGate(config)

    def forward(self, op, hidden_states, at):
        x = self.input_layernorm(op, hidden_states)
        attended, _ = self.self_attn(op, x, at)
        return hidden_states + attended + self.mlp(op, x)


def build(checkpoint, execution_provider):
    config = mobius.ArchitectureConfig.from_pretrained(checkpoint)
    return mobius.build_from_module(CausalLMModel(config, ParallelLayer), config, execution_provider=execution_provider, weights=checkpoint,
                                    ignore_extra=["*.post_attention_layernorm.weight"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: layer.py CHECKPOINT OUT")
    for ep in ("default", "cpu", "onnx-standard"):
        package = build(sys.argv[1], ep)
        package.save(f"{sys.argv[2]}/{ep}", force=True)
        print(f"{ep}: {len(package['model'].graph)} nodes")

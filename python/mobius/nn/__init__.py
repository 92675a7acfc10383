"""Modules, layers and operators: what models are written with.

    from mobius import nn

    class Gate(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.proj = nn.Linear(size, size)

        def forward(self, op, x):
            return op.Mul(x, op.Sigmoid(self.proj(op, x)))
"""

from mobius.nn._graphs import build_graph
from mobius.nn._layers import Embedding, LayerNorm, Linear, RMSNorm
from mobius.nn._module import Module, ModuleList, Parameter, Sequential, state_names
from mobius.nn._op import OpBuilder, Tensor

_COMPONENTS = ("Attention", "DecoderLayer", "MLP")  # of mobius.components, which are made of what is here


def __getattr__(name: str):
    if name in _COMPONENTS:
        from mobius import components

        return getattr(components, name)
    raise AttributeError(f"module 'mobius.nn' has no attribute {name!r}")


__all__ = ["Attention", "DecoderLayer", "Embedding", "LayerNorm", "Linear", "MLP", "Module", "ModuleList", "OpBuilder", "Parameter", "RMSNorm", "Sequential", "Tensor", "build_graph", "state_names"]

"""Layers with PyTorch's names, parameter names and weight layouts."""

from __future__ import annotations

from typing import Any

from mobius.nn._module import Module, Parameter


class Linear(Module):
    """y = x · Wᵀ + b with weight [out_features, in_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = False) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter([out_features, in_features])
        self.bias = Parameter([out_features]) if bias else None

    def forward(self, op: Any, x: Any) -> Any:
        # The Transpose becomes part of the product (FusedMatMul), or of the weight.
        y = op.MatMul(x, op.Transpose(self.weight, perm=[1, 0]))
        return y if self.bias is None else op.Add(y, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}"


class Embedding(Module):
    """Rows of weight [num_embeddings, embedding_dim]."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.weight = Parameter([num_embeddings, embedding_dim])

    def forward(self, op: Any, ids: Any) -> Any:
        return op.Gather(self.weight, ids, axis=0)


class RMSNorm(Module):
    """x / √(mean(x²) + eps) · weight over the last axis; the mean is taken in float32."""

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = Parameter([hidden_size])

    def forward(self, op: Any, x: Any) -> Any:
        return op.RMSNormalization(x, self.weight, epsilon=self.eps)


class LayerNorm(Module):
    """(x − mean) / √(variance + eps) · weight + bias over the last axis."""

    def __init__(self, hidden_size: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = Parameter([hidden_size])
        self.bias = Parameter([hidden_size]) if bias else None

    def forward(self, op: Any, x: Any) -> Any:
        return op.LayerNormalization(x, self.weight, self.bias, epsilon=self.eps)

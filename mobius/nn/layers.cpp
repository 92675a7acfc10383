// Layers as operators.
#include "mobius/nn/layers.hpp"

#include <array>

#include "mobius/base/error.hpp"

namespace mobius::nn {

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, bool bias)
    : scope_(scope), weight_(scope / "weight", {out, in}), bias_(bias ? std::optional(Parameter(scope / "bias", {out})) : std::nullopt) {}
Linear::Linear(Scope scope, Parameter weight, std::optional<Parameter> bias) : scope_(std::move(scope)), weight_(std::move(weight)), bias_(std::move(bias)) {}

Tensor Linear::operator()(Tensor x) const {
  return scoped(x.builder(), scope_.path(), [&] {
    // The weight keeps the checkpoint's layout. Its Transpose becomes part of the product (FusedMatMul) or of the weight's recipe.
    const auto y = matmul(x, transpose(x.with(weight_), {1, 0}));
    return bias_ ? y + *bias_ : y;
  });
}

Embedding::Embedding(const Scope& scope, std::int64_t num_embeddings, std::int64_t embedding_dim, std::vector<std::string> other_names)
    : scope_(scope), weight_(scope / "weight", {num_embeddings, embedding_dim}, std::move(other_names)) {}
Tensor Embedding::operator()(Tensor ids) const {
  return scoped(ids.builder(), scope_.path(), [&] { return gather(ids.with(weight_), ids); });
}

RMSNorm::RMSNorm(const Scope& scope, std::int64_t dim, double eps) : RMSNorm(scope, Parameter(scope / "weight", {dim}), eps) {}
RMSNorm::RMSNorm(Scope scope, Parameter weight, double eps) : scope_(std::move(scope)), weight_(std::move(weight)), eps_(eps) {}
Tensor RMSNorm::operator()(Tensor x) const {
  return scoped(x.builder(), scope_.path(), [&] { return rms_norm(x, weight_, {{"epsilon", static_cast<float>(eps_)}}); });
}

namespace {

// What stands where an operator wants a weight and the model has none; one per width in a graph.
Parameter ones(ir::DataType dtype, std::int64_t dim) {
  const std::vector<double> values(static_cast<std::size_t>(dim), 1.0);
  return {"ones." + std::to_string(dim), ir::make_tensor_of(dtype, {dim}, values)};
}

}  // namespace

UnweightedRMSNorm::UnweightedRMSNorm(const Scope& scope, std::int64_t dim, double eps) : RMSNorm(scope, ones(scope.dtype(), dim), eps) {}

UnweightedLayerNorm::UnweightedLayerNorm(Scope scope, std::int64_t dim, double eps) : scope_(std::move(scope)), ones_(ones(scope_.dtype(), dim)), eps_(eps) {}
Tensor UnweightedLayerNorm::operator()(Tensor x) const {
  return scoped(x.builder(), scope_.path(), [&] { return layer_norm(x, ones_, {}, {{"epsilon", static_cast<float>(eps_)}}); });
}

Tensor per_head(const RMSNorm& norm, Tensor x, std::int64_t heads) { return reshape(norm(reshape(x, {0, 0, heads, -1})), {0, 0, -1}); }

Tensor softcap(Tensor x, std::optional<double> cap) { return cap ? tanh(x / *cap) * *cap : x; }

namespace {

struct Activation {
  std::string_view name;
  Tensor (*apply)(Tensor);
};

// Sigmoid · x rather than Swish: every runtime has it at every opset, and those with a kernel of their own recognise it.
Tensor silu(Tensor x) { return x * sigmoid(x); }
Tensor quick_gelu(Tensor x) { return x * sigmoid(x * 1.702); }
Tensor relu_squared(Tensor x) {
  const auto y = relu(x);
  return y * y;
}

constexpr std::array activations{
    Activation{"silu", silu},
    Activation{"swish", silu},
    Activation{"gelu", [](Tensor x) { return gelu(x); }},
    Activation{"gelu_new", [](Tensor x) { return gelu_tanh(x); }},
    Activation{"gelu_pytorch_tanh", [](Tensor x) { return gelu_tanh(x); }},
    Activation{"gelu_fast", [](Tensor x) { return gelu_tanh(x); }},
    Activation{"quick_gelu", quick_gelu},
    Activation{"relu", [](Tensor x) { return relu(x); }},
    Activation{"relu2", relu_squared},
    Activation{"sigmoid", [](Tensor x) { return sigmoid(x); }},
    Activation{"tanh", [](Tensor x) { return tanh(x); }},
};

}  // namespace

Tensor activation(std::string_view name, Tensor x) {
  for (const auto& a : activations)
    if (a.name == name) return a.apply(x);
  std::string known;
  for (const auto& a : activations) known += (known.empty() ? "" : ", ") + std::string(a.name);
  fail(ErrorKind::unsupported, "unknown activation '{}'; known: {}", name, known);
}

}  // namespace mobius::nn

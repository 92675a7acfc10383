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

Conv1D::Conv1D(const Scope& scope, std::int64_t in, std::int64_t out) : Conv1D(scope, {scope / "weight", {in, out}}, {scope / "bias", {out}}) {}
Conv1D::Conv1D(Scope scope, Parameter weight, Parameter bias) : scope_(std::move(scope)), weight_(std::move(weight)), bias_(std::move(bias)) {}

Tensor Conv1D::operator()(Tensor x) const {
  return scoped(x.builder(), scope_.path(), [&] { return matmul(x, weight_) + bias_; });
}

Conv1D Conv1D::part(std::string_view name, std::int64_t begin, std::int64_t end) const {
  const auto at = scope_ / name;
  return {at, weight_.columns((at / "weight").path(), begin, end), bias_.rows((at / "bias").path(), begin, end)};
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
Parameter ones(ir::DataType dtype, std::int64_t dim) { return {"ones." + std::to_string(dim), ir::make_filled(dtype, {dim}, 1)}; }

}  // namespace

UnweightedRMSNorm::UnweightedRMSNorm(const Scope& scope, std::int64_t dim, double eps) : RMSNorm(scope, ones(scope.dtype(), dim), eps) {}

LayerNorm::LayerNorm(const Scope& scope, std::int64_t dim, double eps, Affine affine)
    : LayerNorm(scope, affine == Affine::none ? ones(scope.dtype(), dim) : Parameter(scope / "weight", {dim}),
                affine == Affine::full ? std::optional(Parameter(scope / "bias", {dim})) : std::nullopt, eps) {}
LayerNorm::LayerNorm(Scope scope, Parameter weight, std::optional<Parameter> bias, double eps)
    : scope_(std::move(scope)), weight_(std::move(weight)), bias_(std::move(bias)), eps_(eps) {}
Tensor LayerNorm::operator()(Tensor x) const {
  return scoped(x.builder(), scope_.path(), [&] {
    return layer_norm(x, weight_, bias_ ? Tensor::Arg(*bias_) : Tensor::Arg(), {{"epsilon", static_cast<float>(eps_)}});
  });
}

Tensor per_head(const RMSNorm& norm, Tensor x, std::int64_t heads) { return reshape(norm(reshape(x, {0, 0, heads, -1})), {0, 0, -1}); }
Tensor per_head(const LayerNorm& norm, Tensor x, std::int64_t heads) { return reshape(norm(reshape(x, {0, 0, heads, -1})), {0, 0, -1}); }

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
    // The same two as formulas.
    Activation{"gelu_python", [](Tensor x) { return gelu(x); }},
    Activation{"gelu_python_tanh", [](Tensor x) { return gelu_tanh(x); }},
    Activation{"gelu_accurate", [](Tensor x) { return gelu_tanh(x); }},
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

// The layers every model is made of, with PyTorch's names, parameter names and weight layouts.
//
//   Linear q_proj{scope / "q_proj", 2048, 1024, Bias::no};          // weight [1024, 2048], y = x · Wᵀ
//   RMSNorm norm{scope / "norm", 2048, 1e-6};
//   Tensor y = activation("silu", q_proj(norm(x)));
#pragma once
#include <optional>

#include "mobius/nn/module.hpp"

namespace mobius::nn {

// y = x · Wᵀ + b with W [out, in], b [out], as stored by PyTorch's nn.Linear.
class Linear {
 public:
  Linear(const Scope& scope, std::int64_t in, std::int64_t out, bool bias = false);
  // With weights made elsewhere (tied, or a part of a fused one).
  Linear(Scope scope, Parameter weight, std::optional<Parameter> bias = {});

  Tensor operator()(Tensor x) const;  // [..., in] -> [..., out]
  const Parameter& weight() const { return weight_; }
  const std::optional<Parameter>& bias() const { return bias_; }

 private:
  Scope scope_;
  Parameter weight_;
  std::optional<Parameter> bias_;
};

// y = x · W + b with W [in, out], b [out], as stored by GPT and GPT-2.
class Conv1D {
 public:
  Conv1D(const Scope& scope, std::int64_t in, std::int64_t out);
  Conv1D(Scope scope, Parameter weight, Parameter bias);

  Tensor operator()(Tensor x) const;  // [..., in] -> [..., out]
  // Of the outputs [begin, end), under another name.
  Conv1D part(std::string_view name, std::int64_t begin, std::int64_t end) const;

 private:
  Scope scope_;
  Parameter weight_, bias_;
};

// Rows of W [num_embeddings, embedding_dim]. `other_names`: where else the same weight may be stored (a tied head).
class Embedding {
 public:
  Embedding(const Scope& scope, std::int64_t num_embeddings, std::int64_t embedding_dim, std::vector<std::string> other_names = {});
  Embedding(Scope scope, Parameter weight) : scope_(std::move(scope)), weight_(std::move(weight)) {}
  Tensor operator()(Tensor ids) const;  // [B, S] int64 -> [B, S, embedding_dim]
  const Parameter& weight() const { return weight_; }

 private:
  Scope scope_;
  Parameter weight_;
};

// x / √(mean(x²) + ε) · weight over the last axis (arXiv 1910.07467); the mean is taken in float32.
class RMSNorm {
 public:
  RMSNorm(const Scope& scope, std::int64_t dim, double eps);
  RMSNorm(Scope scope, Parameter weight, double eps);
  Tensor operator()(Tensor x) const;

 private:
  Scope scope_;
  Parameter weight_;
  double eps_;
};

// x / √(mean(x²) + ε) · (1 + weight): the weight is stored as its distance from one, which is added when it is loaded.
struct OffsetRMSNorm : RMSNorm {
  OffsetRMSNorm(const Scope& scope, std::int64_t dim, double eps) : RMSNorm(scope, Parameter(scope / "weight", {dim}).plus(1), eps) {}
};

// x / √(mean(x²) + ε), without a weight.
struct UnweightedRMSNorm : RMSNorm {
  UnweightedRMSNorm(const Scope& scope, std::int64_t dim, double eps);
};

// (x − mean(x)) / √(var(x) + ε) · weight + bias over the last axis (arXiv 1607.06450).
class LayerNorm {
 public:
  enum class Affine { full, weight_only, none };
  LayerNorm(const Scope& scope, std::int64_t dim, double eps, Affine affine = Affine::full);
  LayerNorm(Scope scope, Parameter weight, std::optional<Parameter> bias, double eps);
  Tensor operator()(Tensor x) const;

 private:
  Scope scope_;
  Parameter weight_;
  std::optional<Parameter> bias_;
  double eps_;
};

// The same without weight and bias.
struct UnweightedLayerNorm : LayerNorm {
  UnweightedLayerNorm(const Scope& scope, std::int64_t dim, double eps) : LayerNorm(scope, dim, eps, Affine::none) {}
};

// Applies `norm` to every head of x: [B, S, heads·dim] is seen as [B, S, heads, dim] and put back.
Tensor per_head(const RMSNorm& norm, Tensor x, std::int64_t heads);
Tensor per_head(const LayerNorm& norm, Tensor x, std::int64_t heads);

// cap · tanh(x / cap): x itself near zero, within ±cap everywhere. Without a cap: x.
Tensor softcap(Tensor x, std::optional<double> cap);

// An activation by its Hugging Face name (transformers' ACT2FN): silu, swish, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast,
// quick_gelu, relu, relu2, sigmoid, tanh. Error unsupported for others, with the known names.
Tensor activation(std::string_view name, Tensor x);

}  // namespace mobius::nn

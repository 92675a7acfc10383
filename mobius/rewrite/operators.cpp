// Facts of operators that patterns rest on.
#include "mobius/rewrite/operators.hpp"

#include <algorithm>
#include <array>

namespace mobius::rewrite {

namespace {

constexpr std::array<std::string_view, 11> commutative = {"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor"};
constexpr std::array<std::string_view, 12> broadcasting = {"Sub",   "Div",   "Pow",      "Mod", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                                           "Where", "PRelu", "BitShift", "Mean"};

// Operands that are indices, axes or sizes: from this one on.
struct Index {
  std::string_view op;
  std::size_t first;
};
constexpr std::array<Index, 16> indices = {{{"Gather", 1},
                                            {"GatherElements", 1},
                                            {"GatherND", 1},
                                            {"CumSum", 1},
                                            {"Trilu", 1},
                                            {"TopK", 1},
                                            {"Squeeze", 1},
                                            {"Unsqueeze", 1},
                                            {"Expand", 1},
                                            {"Tile", 1},
                                            {"Slice", 1},
                                            {"Reshape", 1},
                                            {"Split", 1},
                                            {"ReduceMean", 1},
                                            {"ReduceSum", 1},
                                            {"ReduceMax", 1}}};

}  // namespace

bool is_commutative(ir::OpName op) { return op.domain.empty() && std::ranges::find(commutative, op.type) != commutative.end(); }
bool is_broadcasting(ir::OpName op) { return is_commutative(op) || (op.domain.empty() && std::ranges::find(broadcasting, op.type) != broadcasting.end()); }

bool keeps_all_results(ir::OpName op) { return op.domain == "com.microsoft" && op.type == "GroupQueryAttention"; }

ir::DataType number_type(ir::OpName op, std::size_t i, std::span<ir::Value* const> operands, ir::DataType otherwise) {
  if (op.domain.empty())
    for (const auto& entry : indices)
      if (entry.op == op.type && i >= entry.first) return ir::DataType::int64;
  for (std::size_t k = op.type == "Where" ? 1 : 0; k < operands.size(); ++k)
    if (k != i && operands[k] && operands[k]->dtype() != ir::DataType::undefined) return operands[k]->dtype();
  return otherwise;
}

namespace {

struct Default {
  std::string_view op, attribute;
  ir::Attribute value;
};

// Only defaults that a number or string can state; operators of both domains share no attribute name with different defaults here.
const std::vector<Default>& defaults() {
  static const std::vector<Default> table = {
      {"RMSNormalization", "axis", std::int64_t{-1}},
      {"RMSNormalization", "epsilon", 1e-5f},
      {"RMSNormalization", "stash_type", std::int64_t{1}},
      {"SimplifiedLayerNormalization", "axis", std::int64_t{-1}},
      {"SimplifiedLayerNormalization", "epsilon", 1e-5f},
      {"SimplifiedLayerNormalization", "stash_type", std::int64_t{1}},
      {"LayerNormalization", "axis", std::int64_t{-1}},
      {"LayerNormalization", "epsilon", 1e-5f},
      {"LayerNormalization", "stash_type", std::int64_t{1}},
      {"RotaryEmbedding", "interleaved", std::int64_t{0}},
      {"RotaryEmbedding", "num_heads", std::int64_t{0}},
      {"RotaryEmbedding", "rotary_embedding_dim", std::int64_t{0}},
      {"Attention", "is_causal", std::int64_t{0}},
      {"Attention", "softcap", 0.0f},
      {"Attention", "qk_matmul_output_mode", std::int64_t{0}},
      {"Gather", "axis", std::int64_t{0}},
      {"Gelu", "approximate", std::string("none")},
      {"Softmax", "axis", std::int64_t{-1}},
      {"Split", "axis", std::int64_t{0}},
      {"Flatten", "axis", std::int64_t{1}},
      {"Reshape", "allowzero", std::int64_t{0}},
      {"Shape", "start", std::int64_t{0}},
      {"Gemm", "alpha", 1.0f},
      {"Gemm", "beta", 1.0f},
      {"Gemm", "transA", std::int64_t{0}},
      {"Gemm", "transB", std::int64_t{0}},
      {"FusedMatMul", "alpha", 1.0f},
      {"FusedMatMul", "transA", std::int64_t{0}},
      {"FusedMatMul", "transB", std::int64_t{0}},
      {"FusedMatMul", "transBatchA", std::int64_t{0}},
      {"FusedMatMul", "transBatchB", std::int64_t{0}},
      {"GroupQueryAttention", "scale", 0.0f},
      {"GroupQueryAttention", "softcap", 0.0f},
      {"GroupQueryAttention", "do_rotary", std::int64_t{0}},
      {"GroupQueryAttention", "rotary_interleaved", std::int64_t{0}},
      {"GroupQueryAttention", "local_window_size", std::int64_t{-1}},
      {"GroupQueryAttention", "smooth_softmax", std::int64_t{0}},
      {"GroupQueryAttention", "causal", std::int64_t{1}},
      {"GroupQueryAttention", "qk_output", std::int64_t{0}},
      {"GroupQueryAttention", "sliding_window_cache", std::int64_t{0}},
      {"Cast", "saturate", std::int64_t{1}},
      {"ReduceMean", "keepdims", std::int64_t{1}},
      {"ReduceSum", "keepdims", std::int64_t{1}},
      {"ReduceMax", "keepdims", std::int64_t{1}},
      {"GatherND", "batch_dims", std::int64_t{0}},
      {"TopK", "axis", std::int64_t{-1}},
      {"TopK", "largest", std::int64_t{1}},
      {"TopK", "sorted", std::int64_t{1}},
      {"ReduceMean", "noop_with_empty_axes", std::int64_t{0}},
      {"ReduceSum", "noop_with_empty_axes", std::int64_t{0}},
      {"ReduceMax", "noop_with_empty_axes", std::int64_t{0}},
      {"CumSum", "exclusive", std::int64_t{0}},
      {"CumSum", "reverse", std::int64_t{0}},
      {"LeakyRelu", "alpha", 0.01f},
      {"Swish", "alpha", 1.0f},
      {"QuickGelu", "alpha", 1.702f},
  };
  return table;
}

}  // namespace

std::optional<ir::Attribute> attribute_default(ir::OpName op, std::string_view attribute) {
  for (const auto& d : defaults())
    if (d.op == op.type && d.attribute == attribute) return d.value;
  return std::nullopt;
}

std::vector<std::pair<std::string, ir::Attribute>> attribute_defaults(ir::OpName op) {
  std::vector<std::pair<std::string, ir::Attribute>> found;
  for (const auto& d : defaults())
    if (d.op == op.type) found.emplace_back(d.attribute, d.value);
  return found;
}

}  // namespace mobius::rewrite

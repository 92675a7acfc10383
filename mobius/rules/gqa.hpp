// What the rules about GroupQueryAttention share. Internal to rules/.
#pragma once
#include "mobius/ops/vocabulary.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius::rules {

// All attributes of a plain GroupQueryAttention (no quantised cache, no second output), bound under their own names: listed on both
// sides of a rule, they go over unchanged. `do_rotary`: 0, 1, or bound like the others.
inline rewrite::Pat::AttrArgs gqa_attributes(rewrite::AttrSpec do_rotary = rewrite::attr<std::int64_t>("do_rotary")) {
  using rewrite::attr;
  return {{"num_heads", attr<std::int64_t>("num_heads")},
          {"kv_num_heads", attr<std::int64_t>("kv_num_heads")},
          {"scale", attr<float>("scale")},
          {"softcap", attr<float>("softcap")},
          {"local_window_size", attr<std::int64_t>("local_window_size")},
          {"smooth_softmax", attr<std::int64_t>("smooth_softmax")},
          {"rotary_interleaved", attr<std::int64_t>("rotary_interleaved")},
          {"do_rotary", do_rotary}};
}

// The operands of a node with a sink: head_sink is the twelfth.
inline std::vector<rewrite::Pat::Arg> with_sink(std::vector<rewrite::Pat::Arg> operands, const rewrite::Pat& sink) {
  operands.resize(11);
  operands.emplace_back(sink);
  return operands;
}

// GroupQueryAttention is for decoders, in types that the kernel has.
inline bool has_gqa(const rewrite::Target& t) { return t.role == "decoder" && t.ep.gqa_dtypes.contains(t.dtype); }

// How x is multiplied by a weight: FusedMatMul or MatMul with Transpose on one of [out, in], MatMul on one of [in, out].
enum class Product { fused, transposed, plain };
inline constexpr Product all_products[] = {Product::fused, Product::transposed, Product::plain};

inline rewrite::Pat product(const rewrite::Pat& x, const rewrite::Pat& weight, Product kind) {
  switch (kind) {
    case Product::fused: return ms::fused_matmul(x, weight, {{"transB", 1}});
    case Product::transposed: return matmul(x, transpose(weight, {1, 0}));
    case Product::plain: break;
  }
  return matmul(x, weight);
}
inline std::int64_t output_axis(Product kind) { return kind == Product::plain ? 1 : 0; }  // of the weight

// Dimension `axis` of a value, int64 [1].
inline ir::Value* dimension(rewrite::Inserter& at, ir::Value* of, std::int64_t axis) {
  return at.shared({"", "Shape"}, {of}, {{"start", axis}, {"end", axis + 1}});
}

// The same, read from a graph input that has an equal dimension, or from two that add up to it: then all layers share it.
inline ir::Value* shared_dimension(rewrite::Inserter& at, ir::Value* of, std::size_t axis) {
  const auto from_input = [&](const ir::Dim& dim) -> ir::Value* {
    for (auto* input : at.graph().inputs())
      for (std::size_t i = 0; i < input->rank().value_or(0); ++i)
        if ((*input->shape())[i] == dim) return dimension(at, input, static_cast<std::int64_t>(i));
    return nullptr;
  };
  const auto& dim = (*of->shape())[axis];
  if (auto* found = from_input(dim)) return found;
  if (dim.is_symbolic() && dim.sum()->size() == 2) {
    const auto first = ir::Dim::symbol(dim.sum()->front().symbols.front()), second = dim - first;
    if (auto* a = from_input(first))
      if (auto* b = from_input(second)) return at.shared({"", "Add"}, {a, b});
  }
  return dimension(at, of, static_cast<std::int64_t>(axis));
}

// Of a cache [batch, heads, length, size].
inline std::optional<std::int64_t> head_size(const ir::Value* past) { return past->rank() == 4u ? (*past->shape())[3].as_static() : std::nullopt; }

// RotaryEmbedding on queries and keys goes into the node behind it.
std::vector<rewrite::Rule> rope_inside_gqa();

// Of float types up to 32 bits; for the wide ones what bfloat16 holds too.
inline double lowest_number(ir::DataType dtype) { return dtype == ir::DataType::float16 ? -65504.0 : -3.3895313892515355e38; }

inline ir::Attributes cast_to(ir::DataType type) { return {{"to", static_cast<std::int64_t>(type)}}; }

}  // namespace mobius::rules

// Whether a graph holds anything that an execution provider's row says it can't run: what rules do, said once more from the other side.
#pragma once
#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "mobius/ep/capabilities.hpp"
#include "mobius/ir/model.hpp"
#include "mobius/ops/vocabulary.hpp"

namespace mobius {

class KernelFacts {
 public:
  KernelFacts(const EpCapabilities& ep, ir::DataType dtype, std::string role) : ep_(ep), dtype_(dtype), role_(std::move(role)) {}

  // What is lacking for this node; empty when nothing is.
  std::vector<std::string> lacking(const ir::Node& n) {
    missing_.clear();
    if (n.op.domain == ops::microsoft) contrib(n);
    else if (!n.op.domain.empty()) missing_.push_back("domain " + std::string(n.op.domain));
    else standard(n);
    return missing_;
  }

 private:
  void needs(bool fact, std::string what) {
    if (!fact) missing_.push_back(std::move(what));
  }
  void needs(DataTypeSet dtypes, const char* what) { needs(dtypes.contains(dtype_), what); }

  void contrib(const ir::Node& n) {
    needs(ep_.supports_custom_domains, "custom domains");
    const auto type = n.op.type;
    if (type == "GroupQueryAttention") group_query_attention(n);
    else if (type == "SkipLayerNormalization" || type == "SkipSimplifiedLayerNormalization") {
      needs(ep_.supports_skip_layer_norm, "supports_skip_layer_norm");
      needs(ep_.skip_layer_norm_dtypes, "skip_layer_norm_dtypes");
    } else if (type == "FusedMatMul") {
      needs(ep_.supports_fused_matmul, "supports_fused_matmul");
      needs(ep_.fused_matmul_dtypes, "fused_matmul_dtypes");
    } else if (type == "BiasGelu" || type == "FastGelu") {
      needs(type == "BiasGelu" ? ep_.supports_bias_gelu : ep_.supports_fast_gelu, "supports_bias_gelu or supports_fast_gelu");
      needs(ep_.gelu_dtypes, "gelu_dtypes");
    } else if (type == "PackedMultiHeadAttention") {
      needs(ep_.supports_packed_multi_head_attention, "supports_packed_multi_head_attention");
      needs(ep_.packed_multi_head_attention_dtypes, "packed_multi_head_attention_dtypes");
    } else if (type == "MoE" || type == "QMoE") {
      needs(ep_.supports_fused_moe, "supports_fused_moe");
    } else if (type == "MatMulNBits") {
      needs(ep_.supports_matmul_nbits, "supports_matmul_nbits");
    } else {
      needs(false, "a fact that tells of it");
    }
  }

  void group_query_attention(const ir::Node& n) {
    needs(role_ == "decoder", "the role decoder");
    needs(ep_.gqa_dtypes, "gqa_dtypes");
    if (!n.input(1)) {
      needs(ep_.qkv_pack_dtypes, "qkv_pack_dtypes");
      needs(ep_.supports_fused_rope, "supports_fused_rope, for packed operands");
    }
    const auto& cache = n.input(3)->shape();
    const auto size = cache && cache->size() == 4 ? cache->back().as_static() : std::nullopt;
    needs(size && *size % ep_.gqa_head_size_multiple == 0, "gqa_head_size_multiple");
    if (n.int_attribute("do_rotary", 0)) {
      needs(ep_.supports_fused_rope, "supports_fused_rope");
      needs(size && *size % ep_.gqa_rotary_head_size_multiple == 0, "gqa_rotary_head_size_multiple");
      const auto& table = n.input(7)->shape();
      const auto columns = table ? table->back().as_static() : std::nullopt;
      needs(columns && *columns % ep_.gqa_rotary_table_multiple == 0, "gqa_rotary_table_multiple");
    }
    if (n.int_attribute("local_window_size", -1) > 0) needs(ep_.supports_gqa_window, "supports_gqa_window");
    if (n.float_attribute("softcap", 0) != 0) needs(ep_.supports_gqa_softcap, "supports_gqa_softcap");
    if (n.input(10)) needs(ep_.supports_gqa_attention_bias, "supports_gqa_attention_bias");
    if (n.input(11)) needs(ep_.supports_gqa_sink, "supports_gqa_sink");
  }

  void standard(const ir::Node& n) {
    const auto type = n.op.type;
    if (type == "Attention") needs(ep_.supports_attention, "supports_attention");
    if (type == "RotaryEmbedding") needs(ep_.supports_rotary_embedding, "supports_rotary_embedding");
    if (type == "TensorScatter") needs(ep_.supports_tensor_scatter, "supports_tensor_scatter");
    if (type == "Range") needs(ep_.supports_range, "supports_range");
    if (type == "RMSNormalization" && !ep_.supports_rank4_rmsnorm) needs(n.input(0)->rank() && n.input(0)->rank() <= 3u, "supports_rank4_rmsnorm");
  }

  const EpCapabilities& ep_;
  ir::DataType dtype_;
  std::string role_;
  std::vector<std::string> missing_;
};

inline std::set<std::string> what_is_lacking(const ir::Model& model, const EpCapabilities& ep, ir::DataType dtype, const std::string& role) {
  std::set<std::string> all;
  KernelFacts facts(ep, dtype, role);
  bool is_captured = false;
  for (const auto* n : model.graph->nodes()) {
    for (const auto& what : facts.lacking(*n)) all.insert(fmt::format("{} needs {}", ir::to_string(n->op), what));
    is_captured |= ep.requires_graph_capture_rewrite && n->is("GroupQueryAttention", ops::microsoft);
    if (ep.relies_on_function_bodies && !n->op.domain.empty() && !model.find_function(n->op, n->overload))
      all.insert(ir::to_string(n->op) + " needs a function body");
  }
  // Once attention is the EP's own, nothing of the graph may be computed on the host.
  for (const auto* n : model.graph->nodes())
    if (is_captured && n->is("Shape")) all.insert("Shape needs the host");
  for (const auto& [domain, version] : model.opset_imports) {
    if (domain.empty() && version > ep.max_opset) all.insert(fmt::format("opset {} is above max_opset", version));
    if (!domain.empty() && !ep.supports_custom_domains) all.insert("the import of " + domain + " needs custom domains");
  }
  if (!ep.supports_custom_domains && !model.functions.empty()) all.insert("functions need custom domains");
  if (model.ir_version > ep.max_ir) all.insert(fmt::format("IR {} is above max_ir", model.ir_version));
  return all;
}

}  // namespace mobius

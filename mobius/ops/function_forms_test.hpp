// Forms of the operators that have function bodies, as one-node graphs with symbols for sizes, and what their inputs hold.
#pragma once
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "mobius/rewrite/disprove.hpp"

namespace mobius::ops {

using rewrite::Contents;

struct Form {
  std::string inputs, node;
  Contents contents = {};
  double tolerance = 1e-9;

  std::string text() const {
    return fmt::format("<ir_version: 11, opset_import: [\"\" : 24, \"com.microsoft\" : 1]> g ({}) => ({}) {{ {} }}", inputs, results(), node);
  }
  // "y, "", s = Op(...)" gives y, s
  std::string results() const {
    std::string out;
    for (std::size_t at = 0; at < node.find('=');) {
      const auto end = std::min(node.find(',', at), node.find('='));
      auto name = node.substr(at, end - at);
      std::erase(name, ' ');
      if (name != "\"\"") out += (out.empty() ? "" : ", ") + name;
      at = end + 1;
    }
    return out;
  }
};

inline std::vector<Form> norm_forms() {
  return {
      {"float[B,S,8] x, float[8] w", "y = RMSNormalization(x, w)"},
      {"float[B,S,8] x, float[S,8] w", "y = RMSNormalization<axis = 1, epsilon = 0.5, stash_type = 10>(x, w)"},
      {"float16[B,S,8] x, float[8] w", "y = RMSNormalization<axis = -1, epsilon = 0.5>(x, w)"},
      {"float[B,S,8] x, float[8] w", "y, i = SimplifiedLayerNormalization<epsilon = 0.5>(x, w)"},
      {"float[B,S,8] x, float[S,8] w", "y = SimplifiedLayerNormalization<axis = 1, stash_type = 10>(x, w)"},
      {"float[B,S,8] x, float[B,S,8] s, float[8] w", "y = com.microsoft.SkipSimplifiedLayerNormalization(x, s, w)"},
      {"float[B,S,8] x, float[B,S,8] s, float[8] w, float[8] b", "y, m, i, t = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.5>(x, s, w, b)"},
      {"float[T,8] x, float[T,8] s, float[8] w", "y, \"\", \"\", t = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.5>(x, s, w)"},
      {"float[B,S,8] x, float[B,S,8] s, float[8] w", "y = com.microsoft.SkipLayerNormalization(x, s, w)"},
      {"float[B,S,8] x, float[B,S,8] s, float[8] w, float[8] b, float[8] c", "y, m, i, t = com.microsoft.SkipLayerNormalization<epsilon = 0.5>(x, s, w, b, c)"},
      {"float[B,S,8] x, float[S,8] s, float[8] w, float[8] c", "y, \"\", \"\", t = com.microsoft.SkipLayerNormalization(x, s, w, \"\", c)"},
  };
}

inline std::vector<Form> activation_forms() {
  std::vector<Form> forms = {
      {"float[B,S,8] x", "y = Gelu(x)"},
      {"float[B,S,8] x", "y = Gelu<approximate = \"tanh\">(x)"},
      {"float[B,S,8] x", "y = Swish(x)"},
      {"float[B,S,8] x", "y = Swish<alpha = 1.5>(x)"},
      {"float[B,S,8] x", "y = com.microsoft.Gelu(x)"},
      {"float[B,S,8] x, float[8] b", "y = com.microsoft.BiasGelu(x, b)"},
      {"float[B,S,8] x", "y = com.microsoft.FastGelu(x)"},
      {"float[B,S,8] x, float[8] b", "y = com.microsoft.FastGelu(x, b)"},
      {"float[B,S,8] x", "y = com.microsoft.QuickGelu(x)"},
      {"float[B,S,8] x", "y = com.microsoft.QuickGelu<alpha = 1.5>(x)"},
      {"float[B,N,S,8] a, float[B,N,8,4] b", "y = com.microsoft.FusedMatMul<alpha = 0.5>(a, b)"},
      {"float[B,S,8] a, float[4,8] b", "y = com.microsoft.FusedMatMul<transB = 1>(a, b)"},
      {"float[8,S] a, float[4,8] b", "y = com.microsoft.FusedMatMul<transA = 1, transB = 1, alpha = 2.0>(a, b)"},
      {"float[B,8,S] a, float[B,8,4] b", "y = com.microsoft.FusedMatMul<transA = 1>(a, b)"},
      {"float[S,B,8] a, float[B,8,4] b", "y = com.microsoft.FusedMatMul<transBatchA = 1>(a, b)"},
      {"float[B,S,8] a, float[8,B,4] b", "y = com.microsoft.FusedMatMul<transBatchB = 1>(a, b)"},
  };
  return forms;
}

inline std::vector<Form> attention_forms() {
  const std::string qkv = "float[B,4,S,4] q, float[B,2,T,4] k, float[B,2,T,5] v";
  const std::string flat = "float[B,S,64] q, float[B,T,32] k, float[B,T,10] v", heads = "q_num_heads = 4, kv_num_heads = 2";
  const std::string past = ", float[B,2,P,4] pk, float[B,2,P,5] pv";
  const Contents some_past = {{"P", "0..4"}};
  std::vector<Form> forms = {
      {qkv, "y = Attention(q, k, v)"},
      {"float[B,2,S,4] q, float[B,2,T,4] k, float[B,2,T,5] v", "y = Attention<scale = 0.5, softcap = 1.5>(q, k, v)"},
      {"float[B,2,S,4] q, float[B,2,T,4] k, float[B,2,T,5] v", "y = Attention<is_causal = 1, softmax_precision = 1>(q, k, v)"},
      {flat, "y = Attention<" + heads + ">(q, k, v)"},
      {qkv + ", bool[S,T] m", "y = Attention(q, k, v, m)"},
      {qkv + ", float[B,1,S,T] m", "y = Attention(q, k, v, m)"},
      {qkv + ", float[B,1,S,T] m", "y = Attention(q, k, v, m)", {{"m", "0, -inf, 1, -inf, -inf"}}},
      {qkv + past + ", bool[B,4,S,\"P + T\"] m", "y, a, c = Attention<softcap = 2.0>(q, k, v, m, pk, pv)", some_past},
      {flat + ", float[B,2,P,16] pk, float[B,2,P,5] pv", "y, a, c = Attention<is_causal = 1, " + heads + ">(q, k, v, \"\", pk, pv)", some_past},
      {qkv + ", int64[B] n", "y = Attention(q, k, v, \"\", \"\", \"\", n)", {{"n", "1..T + 1"}}},
      {qkv + past, "y, a, c = Attention<left_window_size = 1, right_window_size = 1>(q, k, v, \"\", pk, pv)", some_past},
      {qkv + past, "y, a, c = Attention<left_window_size = 1, is_causal = 1>(q, k, v, \"\", pk, pv)", some_past},
  };
  for (int mode = 0; mode < 4; ++mode)
    forms.push_back({qkv + past + ", float[B,1,S,\"P + T\"] m",
                     fmt::format("y, a, c, s = Attention<qk_matmul_output_mode = {}, softcap = 2.0>(q, k, v, m, pk, pv)", mode),
                     {{"P", "0..4"}, {"m", "0, -inf, 1, -inf, -inf"}}});
  const Contents positions = {{"p", "0..9"}};
  for (const auto* kind : {"interleaved = 0", "interleaved = 1", "rotary_embedding_dim = 4"}) {
    const int columns = kind[0] == 'r' ? 2 : 4;
    const std::string tables = fmt::format("float[9,{0}] c, float[9,{0}] s, int64[B,S] p", columns);
    forms.push_back({"float[B,2,S,8] x, " + tables, fmt::format("y = RotaryEmbedding<{}>(x, c, s, p)", kind), positions});
    forms.push_back({"float[B,S,16] x, " + tables, fmt::format("y = RotaryEmbedding<num_heads = 2, {}>(x, c, s, p)", kind), positions});
    forms.push_back({"float[B,S,16] x, " + tables, fmt::format("y = com.microsoft.RotaryEmbedding<num_heads = 2, {}>(x, p, c, s)", kind), positions});
  }
  forms.push_back({"float[B,2,S,8] x, float[B,S,4] c, float[B,S,4] s", "y = RotaryEmbedding(x, c, s)"});
  forms.push_back({"float[B,2,S,8] x, int64[1] p, float[9,4] c, float[9,4] s", "y = com.microsoft.RotaryEmbedding(x, p, c, s)", {{"p", "0..5"}}});
  return forms;
}

inline std::vector<Form> group_query_forms() {
  const std::string qkv = "float[B,S,32] q, float[B,S,16] k, float[B,S,16] v", packed = "float[B,S,64] q", past = ", float[B,1,P,16] pk, float[B,1,P,16] pv";
  const std::string lengths = ", int32[B] n, int32 t", tables = ", float[9,8] c, float[9,8] s", half_tables = ", float[9,4] c, float[9,4] s";
  const Contents full = {{"P", "0..4"}, {"n", "P + S - 1"}, {"t", "P + S"}};
  // Rows of different lengths, each new token of which is one.
  const Contents decode = {{"P", "1..5"}, {"S", "1..2"}, {"n", "1..P + 1"}, {"t", "P + 1"}};
  // The cache is a buffer that is longer than what is in it.
  const Contents buffer = {{"P", "4..6"}, {"S", "1..2"}, {"n", "1..3"}, {"t", "3"}};
  const Contents prompt = {{"n", "0..S"}, {"t", "S"}};
  const auto gqa = [](const std::string& attributes, const std::string& operands, const char* results = "y, a, e") {
    return fmt::format("{} = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1{}{}>({})", results, attributes.empty() ? "" : ", ", attributes,
                       operands);
  };
  std::vector<Form> forms = {
      {qkv + lengths, gqa("", "q, k, v, \"\", \"\", n, t"), prompt},
      {packed + lengths, gqa("scale = 0.5, softcap = 2.0", "q, \"\", \"\", \"\", \"\", n, t"), prompt},
      {qkv + lengths, gqa("causal = 0", "q, k, v, \"\", \"\", n, t"), prompt},
      {qkv + past + lengths + ", float[B,2,S,\"P + S\"] b", gqa("", "q, k, v, pk, pv, n, t, \"\", \"\", \"\", b"), full},
      {qkv + past + lengths + ", float[1,1,S,\"P + 1\"] b", gqa("", "q, k, v, pk, pv, n, t, \"\", \"\", \"\", b"), decode},
      {qkv + past + lengths + ", float[B,1,S,3] b", gqa("", "q, k, v, pk, pv, n, t, \"\", \"\", \"\", b"), buffer},
  };
  for (const auto& contents : {full, decode, buffer}) {
    auto positions = contents;
    positions["p"] = "0..9";
    forms.insert(
        forms.end(),
        {{qkv + past + lengths, gqa("", "q, k, v, pk, pv, n, t"), contents},
         {qkv + past + lengths, gqa("local_window_size = 2", "q, k, v, pk, pv, n, t"), contents},
         {packed + past + lengths, gqa("smooth_softmax = 1", "q, \"\", \"\", pk, pv, n, t"), contents},
         {qkv + past + lengths + ", float[2] h", gqa("", "q, k, v, pk, pv, n, t, \"\", \"\", \"\", \"\", h"), contents},
         {qkv + past + lengths + tables, gqa("do_rotary = 1", "q, k, v, pk, pv, n, t, c, s"), contents},
         {qkv + past + lengths + half_tables, gqa("do_rotary = 1", "q, k, v, pk, pv, n, t, c, s"), contents},
         {packed + past + lengths + half_tables, gqa("do_rotary = 1, rotary_interleaved = 1", "q, \"\", \"\", pk, pv, n, t, c, s"), contents},
         {qkv + past + lengths + half_tables + ", int64[B,S] p", gqa("do_rotary = 1", "q, k, v, pk, pv, n, t, c, s, p"), positions},
         {packed + past + lengths + tables, gqa("do_rotary = 1, rotary_interleaved = 1", "q, \"\", \"\", pk, pv, n, t, c, s"), contents},
         {qkv + past + lengths + tables + ", int64[B,S] p", gqa("do_rotary = 1", "q, k, v, pk, pv, n, t, c, s, p"), positions},
         {qkv + past + lengths + ", float[16] w, float[16] x", gqa("", "q, k, v, pk, pv, n, t, \"\", \"\", \"\", \"\", \"\", \"\", \"\", w, x"), contents}});
  }
  return forms;
}

inline std::vector<Form> multi_head_forms() {
  const std::string qkv = "float[B,S,8] q, float[B,T,8] k, float[B,T,6] v", past = ", float[B,2,P,4] pk, float[B,2,P,3] pv";
  const Contents some_past = {{"P", "0..4"}};
  const auto mha = [](const std::string& attributes, const std::string& operands, const char* results = "y") {
    return fmt::format("{} = com.microsoft.MultiHeadAttention<num_heads = 2{}{}>({})", results, attributes.empty() ? "" : ", ", attributes, operands);
  };
  const Contents two_rows = {{"o", "0, 1, 3, 4, 5, 2"}, {"e", "0, 2, 5"}};
  return {
      {qkv, mha("", "q, k, v")},
      {qkv, mha("scale = 0.5", "q, k, v", "y, a, c")},
      {"float[B,S,8] q, float[B,T,8] k, float[B,T,8] v, float[24] b", mha("", "q, k, v, b")},
      {qkv + ", int32[B,T] m", mha("mask_filter_value = -3.0", "q, k, v, \"\", m")},
      {qkv + ", int32[B] m", mha("mask_filter_value = -3.0", "q, k, v, \"\", m"), {{"m", "1..T + 1"}, {"B", "2..4"}}},
      // Each row sees something: behind -10000 a float has no digits left for scores.
      {qkv + ", int32[B,S,T] m, float[B,2,S,T] z", mha("", "q, k, v, \"\", m, z"), {{"m", "1, 0, 1"}, {"T", "3..6"}}},
      {qkv + past, mha("unidirectional = 1", "q, k, v, \"\", \"\", \"\", pk, pv", "y, a, c"), {{"P", "0..4"}, {"T", "3..4"}, {"S", "3..4"}}},
      {qkv + past, mha("", "q, k, v, \"\", \"\", \"\", pk, pv", "y, a, c"), some_past},
      {"float[B,S,8] q, float[B,2,T,4] k, float[B,2,T,4] v", mha("", "q, k, v")},
      {"float[B,S,2,3,4] q", mha("", "q", "y, a, c")},
      {"float[B,S,8] q, float[B,T,2,2,4] k", mha("", "q, k")},
      {"float[5,8] q, float[5,8] k, float[5,6] v, int32[2,3] o, int32[3] e", "y = com.microsoft.PackedMultiHeadAttention<num_heads = 2>(q, k, v, \"\", o, e)",
       two_rows},
      {"float[5,8] q, float[5,8] k, float[5,8] v, float[24] b, int32[2,3] o, int32[3] e",
       "y = com.microsoft.PackedMultiHeadAttention<num_heads = 2, scale = 0.5>(q, k, v, b, o, e)", two_rows},
      {"float[5,2,3,4] q, int32[2,3] o, int32[3] e", "y = com.microsoft.PackedMultiHeadAttention<num_heads = 2>(q, \"\", \"\", \"\", o, e)", two_rows},
  };
}

inline std::vector<Form> other_forms() {
  std::vector<Form> forms;
  const std::string first = "float[3,6,4] a, float[3,6] d, ", second = "float[3,4,6] b, float[3,4] e";
  const auto experts = [&](const std::string& inputs, const std::string& attributes, const std::string& operands) {
    forms.push_back({"float[B,S,4] x, float[\"B*S\",3] r, " + inputs, fmt::format("y = com.microsoft.MoE<{}>(x, r, {})", attributes, operands)});
  };
  forms.push_back(
      {"float[B,S,4] x, float[\"B*S\",3] r, float[3,6,4] a, float[3,4,6] b", "y = com.microsoft.MoE<k = 2, activation_type = \"silu\">(x, r, a, \"\", b)"});
  for (const auto* kind : {"relu", "gelu", "silu", "identity"}) experts(first + second, fmt::format("k = 2, activation_type = \"{}\"", kind), "a, d, b, e");
  experts(first + second + ", float[3,6,4] c, float[3,6] f", "k = 1, normalize_routing_weights = 1, activation_type = \"silu\"", "a, d, b, e, c, f");
  experts("float[3,6,4] a, float[3,4,6] b, float[3,6,4] c", "k = 1, activation_type = \"swiglu\"", "a, \"\", b, \"\", c");
  for (const int fusion : {1, 2})
    experts("float[3,12,4] a, float[3,12] d, " + second,
            fmt::format("k = 2, activation_type = \"swiglu\", swiglu_fusion = {}, activation_alpha = 1.5, activation_beta = 0.5, swiglu_limit = 0.75", fusion),
            "a, d, b, e");

  for (const std::string domain : {"com.microsoft.", ""}) {
    const auto linear = [&](const std::string& rule, const std::string& inputs, const std::string& operands) {
      forms.push_back({"float[B,T,8] q, float[B,T,8] k, float[B,T,6] v" + inputs,
                       fmt::format("y, s = {}LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = {}>(q, k, v{})", domain, rule, operands)});
    };
    linear("\"linear\"", ", float[B,2,4,3] p", ", p");
    linear("\"gated\", scale = 0.5", ", float[B,T,2] d", ", \"\", d");
    linear("\"gated\"", ", float[B,2,4,3] p, float[B,T,8] d", ", p, d");
    linear("\"delta\"", ", float[B,T,2] e", ", \"\", \"\", e");
    linear("\"gated_delta\"", ", float[B,2,4,3] p, float[B,T,2] d, float[B,T,1] e", ", p, d, e");
    forms.push_back({"float[B,T,16] q, float[B,T,8] k, float[B,T,6] v",
                     fmt::format("y, s = {}LinearAttention<q_num_heads = 4, kv_num_heads = 2, update_rule = \"linear\">(q, k, v)", domain)});
    for (const auto* activation : {"none", "silu"}) {
      forms.push_back({"float[B,4,L] x, float[4,1,3] w, float[4] b, float[B,4,2] p",
                       fmt::format("y, s = {}CausalConvWithState<activation = \"{}\">(x, w, b, p)", domain, activation)});
      forms.push_back(
          {"float[B,4,L] x, float[4,1,3] w", fmt::format("y, s = {}CausalConvWithState<activation = \"{}\">(x, w)", domain, activation), {{"L", "2..6"}}});
    }
  }
  forms.push_back({"float[B,4,L] x, float[4,1,3] w, float[B,4,4] p", "y, s = com.microsoft.CausalConvWithState<dilation = 2>(x, w, \"\", p)"});
  forms.push_back({"float[B,L,4] x, float[4,1,3] w, float[4] b", "y, s = com.microsoft.CausalConvWithState<channels_last = 1>(x, w, b)", {{"L", "2..6"}}});
  forms.push_back({"float[B,L,8] q, float[B,L,24] k, float[B,L,18] v",
                   "y, s = com.microsoft.LinearAttention<q_num_heads = 2, kv_num_heads = 6, update_rule = \"linear\">(q, k, v)"});
  // Keys of fewer heads than values: as many as queries have.
  forms.push_back({"float[B,L,8] q, float[B,L,8] k, float[B,L,18] v, float[B,6,4,3] p, float[B,L,6] d, float[B,L,6] e",
                   "y, s = com.microsoft.LinearAttention<q_num_heads = 2, kv_num_heads = 6, update_rule = \"gated_delta\", scale = 1.0>(q, k, v, p, d, e)"});
  forms.push_back({"float[B,L,4] q, float[B,L,4] k, float[B,L,6] v, float[B,6,4,1] p, float[B,L,24] d",
                   "y, s = com.microsoft.LinearAttention<q_num_heads = 1, kv_num_heads = 6, update_rule = \"gated\", scale = 1.0>(q, k, v, p, d)"});

  forms.push_back({"float[1,2,9,4] c, float[1,2,S,4] u, int64[1] w", "y = TensorScatter(c, u, w)", {{"w", "0..4"}}});
  forms.push_back({"float[B,2,9,4] c, float[B,2,S,4] u", "y = TensorScatter(c, u)"});
  forms.push_back({"float[B,9,4] c, float[B,S,4] u, int64[B] w", "y = TensorScatter<axis = 1, mode = \"circular\">(c, u, w)", {{"w", "0..9"}}});
  return forms;
}

inline std::vector<Form> all_forms() {
  std::vector<Form> forms;
  for (auto list : {norm_forms(), activation_forms(), attention_forms(), group_query_forms(), multi_head_forms(), other_forms()})
    forms.insert(forms.end(), list.begin(), list.end());
  // Constants of these are rounded to float.
  for (auto& form : forms)
    if (form.node.find("elu") != std::string::npos) form.tolerance = 1e-6;
  return forms;
}

}  // namespace mobius::ops

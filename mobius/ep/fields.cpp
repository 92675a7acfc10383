// The table, and JSON both ways.
#include "mobius/ep/fields.hpp"

#include <algorithm>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {

using E = EpCapabilities;

constexpr EpField fields[] = {
    {"name", &E::name, "what it is chosen by"},
    {"description", &E::description, "one line for `mobius list eps`"},
    {"dtypes", &E::dtypes, "float types a whole model can run in"},
    {"fallback_dtype", &E::fallback_dtype, "used when the checkpoint's dtype is not among them"},
    {"gqa_dtypes", &E::gqa_dtypes, "where GQAFusion fires"},
    {"qkv_pack_dtypes", &E::qkv_pack_dtypes, "where PackQKV fires"},

    {"supports_fused_rope", &E::supports_fused_rope, "false: SeparateRoPE and UnpackQKV"},
    {"supports_skip_layer_norm", &E::supports_skip_layer_norm, "false: Add and norm stay, or are expanded by InlinePass"},
    {"supports_fused_matmul", &E::supports_fused_matmul, "false: Transpose and MatMul; the Transpose of a weight is folded into it"},
    {"supports_fused_moe", &E::supports_fused_moe, "false: fused MoE operators are decomposed"},
    {"supports_packed_multi_head_attention", &E::supports_packed_multi_head_attention, "it has a PackedMultiHeadAttention kernel"},
    {"supports_custom_domains", &E::supports_custom_domains, "false: only the standard's own operators may stay in the graph"},
    {"relies_on_function_bodies", &E::relies_on_function_bodies, "a custom operator may have no kernel, so each form left in the graph needs its body"},

    {"gqa_head_size_multiple", &E::gqa_head_size_multiple, "GroupQueryAttention: of the head size"},
    {"gqa_rotary_head_size_multiple", &E::gqa_rotary_head_size_multiple, "of the head size, with rope inside"},
    {"gqa_rotary_table_multiple", &E::gqa_rotary_table_multiple, "of the columns of cos_cache (half the rotated channels)"},
    {"supports_gqa_window", &E::supports_gqa_window, "GroupQueryAttention's local_window_size"},
    {"supports_gqa_softcap", &E::supports_gqa_softcap, "GroupQueryAttention's softcap"},
    {"supports_gqa_attention_bias", &E::supports_gqa_attention_bias,
     "GroupQueryAttention's attention_bias: what any padding, and masks that are not causal, need"},
    {"supports_gqa_sink", &E::supports_gqa_sink, "GroupQueryAttention's head_sink"},
    {"supports_bias_gelu", &E::supports_bias_gelu, "BiasGelu (the erf form)"},
    {"supports_fast_gelu", &E::supports_fast_gelu, "FastGelu (the tanh form)"},
    {"supports_skip_broadcast", &E::supports_skip_broadcast, "SkipLayerNormalization: a skip of [1, S, H] or [S, H]"},
    {"supports_skip_rms_norm_bias", &E::supports_skip_rms_norm_bias, "SkipSimplifiedLayerNormalization: its bias input is added to the sum"},
    {"skip_layer_norm_dtypes", &E::skip_layer_norm_dtypes, "of Skip(Simplified)LayerNormalization"},
    {"fused_matmul_dtypes", &E::fused_matmul_dtypes, "of FusedMatMul"},
    {"gelu_dtypes", &E::gelu_dtypes, "of BiasGelu, FastGelu"},
    {"fused_moe_dtypes", &E::fused_moe_dtypes, "where experts become MoE operators"},
    {"fused_moe_size_multiple", &E::fused_moe_size_multiple, "MoE: of the hidden size and the experts' width"},
    {"packed_multi_head_attention_dtypes", &E::packed_multi_head_attention_dtypes, "of PackedMultiHeadAttention"},

    {"supports_rank4_rmsnorm", &E::supports_rank4_rmsnorm, "false: a rank-4 RMSNormalization goes through rank 3"},
    {"supports_attention", &E::supports_attention, "false: Attention becomes MatMul and Softmax"},
    {"supports_matmul_nbits", &E::supports_matmul_nbits, "false: DequantizeLinear and MatMul"},
    {"supports_rotary_embedding", &E::supports_rotary_embedding, "false: rotate-half primitives"},
    {"supports_tensor_scatter", &E::supports_tensor_scatter, "false: ScatterND"},
    {"supports_range", &E::supports_range, "false: a constant range and Slice"},

    {"default_int4_accuracy_level", &E::default_int4_accuracy_level, "MatMulNBits' accuracy_level: 0 = unset, 1 = f32 ... 4 = int8, the fastest"},
    {"provider_options", &E::provider_options, "ONNX Runtime GenAI's default provider options"},
    {"genai_provider", &E::genai_provider, "ONNX Runtime GenAI's name of the provider; null: as here; empty: it runs on the CPU there"},
    {"enable_graph_capture", &E::enable_graph_capture, "GPU graph capture by default"},
    {"graph_capture_option", &E::graph_capture_option, "the provider option that says so (1 or 0); empty: there is none"},
    {"requires_graph_capture_rewrite", &E::requires_graph_capture_rewrite, "shapes must not be computed on the host (EliminateShape)"},
    {"supports_past_present_share_buffer", &E::supports_past_present_share_buffer, "GenAI's past_present_share_buffer"},
    {"cap_kv_buffer_max_length", &E::cap_kv_buffer_max_length, "cap search.max_length: the shared buffer is allocated at once"},
    {"max_buffer_size", &E::max_buffer_size, "bytes; no single tensor above it"},
    {"supports_fp8_kv_cache", &E::supports_fp8_kv_cache, "the KV cache may be FLOAT8E4M3FN"},

    {"max_opset", &E::max_opset, "highest ai.onnx opset, 21 to 28"},
    {"max_ir", &E::max_ir, "highest IR version, 10 or more"},
};

constexpr ir::DataType float_types[] = {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16, ir::DataType::float64};

std::string float_type_names() {
  std::string names;
  for (const auto t : float_types) names += (names.empty() ? "" : ", ") + std::string(ir::short_name(t));
  return names;
}

// ── out ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────

Json write(const std::string& v) { return v; }
Json write(bool v) { return v; }
Json write(int v) { return v; }
Json write(std::int64_t v) { return v; }
Json write(ir::DataType v) { return ir::short_name(v); }
Json write(const std::optional<std::uint64_t>& v) { return v ? Json(*v) : Json(); }
Json write(const std::optional<std::string>& v) { return v ? Json(*v) : Json(); }
Json write(const DataTypeSet& v) {
  Json list = Json::Array{};
  for (const auto t : float_types)
    if (v.contains(t)) list.push_back(ir::short_name(t));
  return list;
}
Json write(const std::map<std::string, std::string>& v) {
  Json object = Json::Object{};
  for (const auto& [key, text] : v) object.set(key, text);
  return object;
}

// ── in ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────

ir::DataType read_dtype(const Json& json, const std::string& place) {
  const auto type = json.is_string() ? ir::data_type_from_user(json.as_string()) : std::nullopt;
  if (type && std::ranges::find(float_types, *type) != std::end(float_types)) return *type;
  fail(ErrorKind::invalid_argument, "{} is {}, expected a dtype: {}", place, json.is_string() ? "'" + json.as_string() + "'" : std::string(json.kind()),
       float_type_names());
}

void read(const Json& json, const std::string&, std::string& v) { v = json.as_string(); }
void read(const Json& json, const std::string&, bool& v) { v = json.as_bool(); }
void read(const Json& json, const std::string& place, std::int64_t& v) {
  v = json.as_int();
  if (v < 0) fail(ErrorKind::invalid_argument, "{} is {}, expected 0 or more", place, v);
}
void read(const Json& json, const std::string& place, int& v) {
  std::int64_t wide = 0;
  read(json, place, wide);
  if (wide > 1000) fail(ErrorKind::invalid_argument, "{} is {}, expected at most 1000", place, wide);
  v = static_cast<int>(wide);
}
void read(const Json& json, const std::string& place, ir::DataType& v) { v = read_dtype(json, place); }
void read(const Json& json, const std::string& place, std::optional<std::uint64_t>& v) {
  v.reset();
  if (json.is_null()) return;
  std::int64_t bytes = 0;
  read(json, place, bytes);
  v = static_cast<std::uint64_t>(bytes);
}
void read(const Json& json, const std::string&, std::optional<std::string>& v) {
  v.reset();
  if (!json.is_null()) v = json.as_string();
}
void read(const Json& json, const std::string& place, DataTypeSet& v) {
  v = {};
  const auto& list = json.as_array();
  for (std::size_t i = 0; i < list.size(); ++i) v.add(read_dtype(list[i], fmt::format("{}[{}]", place, i)));
}
void read(const Json& json, const std::string&, std::map<std::string, std::string>& v) {
  v.clear();
  for (const auto& [key, text] : json.as_object()) v[key] = text.as_string();
}

// A value of another kind is told with what was expected.
bool has_kind(const EpField& field, const Json& json) {
  return std::visit(
      [&](auto member) {
        using T = std::remove_cvref_t<decltype(E().*member)>;
        if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, ir::DataType>) return json.is_string();
        else if constexpr (std::is_same_v<T, bool>) return json.is_bool();
        else if constexpr (std::is_integral_v<T>) return json.is_int();
        else if constexpr (std::is_same_v<T, std::optional<std::uint64_t>>) return json.is_int() || json.is_null();
        else if constexpr (std::is_same_v<T, std::optional<std::string>>) return json.is_string() || json.is_null();
        else if constexpr (std::is_same_v<T, DataTypeSet>) return json.is_array();
        else return json.is_object() && std::ranges::all_of(json.as_object(), [](const auto& e) { return e.second.is_string(); });
      },
      field.member);
}

}  // namespace

std::span<const EpField> ep_fields() { return fields; }

std::string_view kind_of(const EpField& field) {
  return std::visit(
      [](auto member) -> std::string_view {
        using T = std::remove_cvref_t<decltype(E().*member)>;
        if constexpr (std::is_same_v<T, std::string>) return "a text";
        else if constexpr (std::is_same_v<T, bool>) return "true or false";
        else if constexpr (std::is_integral_v<T>) return "a whole number";
        else if constexpr (std::is_same_v<T, ir::DataType>) return "a dtype";
        else if constexpr (std::is_same_v<T, std::optional<std::uint64_t>>) return "a whole number or null";
        else if constexpr (std::is_same_v<T, std::optional<std::string>>) return "a text or null";
        else if constexpr (std::is_same_v<T, DataTypeSet>) return "a list of dtypes";
        else return "an object of texts";
      },
      field.member);
}

Json value_of(const EpField& field, const EpCapabilities& ep) {
  return std::visit([&](auto member) { return write(ep.*member); }, field.member);
}

Json to_json(const EpCapabilities& ep) {
  Json object = Json::Object{};
  for (const auto& field : fields) object.set(std::string(field.name), value_of(field, ep));
  return object;
}

EpCapabilities ep_from_json(const Json& json, std::string_view place) {
  if (!json.is_object()) fail(ErrorKind::invalid_argument, "{}: found {}, expected an object with the fields of an execution provider", place, json.kind());
  EpCapabilities ep;
  for (const auto& [key, value] : json.as_object()) {
    const auto* field = std::ranges::find(fields, key, &EpField::name);
    if (field == std::end(fields)) {
      std::string known;
      for (const auto& f : fields) known += (known.empty() ? "" : ", ") + std::string(f.name);
      fail(ErrorKind::invalid_argument, "{}: unknown field '{}'; known are {}", place, key, known);
    }
    if (!has_kind(*field, value)) fail(ErrorKind::invalid_argument, "{}: {} is {}, expected {}", place, key, value.kind(), kind_of(*field));
    const auto where = fmt::format("{}: {}", place, key);
    std::visit([&](auto member) { read(value, where, ep.*member); }, field->member);
  }
  if (ep.name.empty()) fail(ErrorKind::invalid_argument, "{}: the field 'name' is missing", place);
  return ep;
}

}  // namespace mobius

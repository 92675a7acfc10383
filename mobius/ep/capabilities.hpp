// EpCapabilities: everything that is known of an execution provider, as facts about its kernels.
//
//   register_ep({.name = "my-ep", .gqa_dtypes = {DataType::float16}});
//   const EpCapabilities& cuda = get_ep("cuda");                   // Error invalid_argument lists the known names
//   if (cuda.gqa_dtypes.contains(dtype)) ...
//
// Nothing outside builtin.cpp compares an EP's name: what differs between EPs is a field here. The default of each field is what
// is safe for an EP of which nothing else is known. A field that is added here is added to the table in fields.cpp too.
#pragma once
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

#include "mobius/ir/data_type.hpp"

namespace mobius {

// A set of element types.
class DataTypeSet {
 public:
  constexpr DataTypeSet() = default;
  constexpr DataTypeSet(std::initializer_list<ir::DataType> types) {
    for (auto t : types) add(t);
  }
  constexpr void add(ir::DataType t) { bits_ |= bit(t); }
  constexpr bool contains(ir::DataType t) const { return (bits_ & bit(t)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const DataTypeSet&) const = default;

 private:
  static constexpr std::uint32_t bit(ir::DataType t) { return 1u << static_cast<unsigned>(t); }
  std::uint32_t bits_ = 0;
};

inline constexpr DataTypeSet any_float = {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16, ir::DataType::float64};

struct EpCapabilities {
  std::string name = {};
  std::string description = {};  // one line for `mobius list eps`

  // ── dtypes ──
  DataTypeSet dtypes = {ir::DataType::float32, ir::DataType::float16};  // float types a whole model can run in
  ir::DataType fallback_dtype = ir::DataType::float32;                  // used when the checkpoint's dtype is not among them
  DataTypeSet gqa_dtypes = {};                                          // where GQAFusion fires
  DataTypeSet qkv_pack_dtypes = {};                                     // where PackQKV fires

  // ── fused kernels ──
  bool supports_fused_rope = true;                    // no: SeparateRoPE and UnpackQKV
  bool supports_skip_layer_norm = true;               // no: Add and norm stay, or are expanded by InlinePass
  bool supports_fused_matmul = true;                  // no: Transpose and MatMul; the Transpose of a weight is folded into it
  bool supports_fused_moe = true;                     // no: fused MoE ops are decomposed
  bool supports_packed_multi_head_attention = false;  // yes: a PackedMultiHeadAttention kernel
  bool supports_custom_domains = true;                // no: only the standard's own operators may stay in the graph
  bool relies_on_function_bodies = false;             // yes: a custom op may have no kernel, so each form left in the graph needs its body

  // ── limits of the fused kernels: where one is exceeded, the fusion does not fire and the trace says so ──
  std::int64_t gqa_head_size_multiple = 8;          // GroupQueryAttention: of the head size
  std::int64_t gqa_rotary_head_size_multiple = 16;  // of the head size, with rope inside
  std::int64_t gqa_rotary_table_multiple = 8;       // of the columns of cos_cache (half the rotated channels)
  bool supports_gqa_window = false;                 // local_window_size
  bool supports_gqa_softcap = false;                // softcap
  bool supports_gqa_attention_bias = false;         // input attention_bias: what any padding, and masks that are not causal, need
  bool supports_gqa_sink = false;                   // input head_sink
  bool supports_bias_gelu = false;                  // BiasGelu (the erf form)
  bool supports_fast_gelu = false;                  // FastGelu (the tanh form)
  bool supports_skip_broadcast = false;             // SkipLayerNormalization: a skip of [1, S, H] or [S, H]
  bool supports_skip_rms_norm_bias = false;         // SkipSimplifiedLayerNormalization: its bias input is added to the sum
  DataTypeSet skip_layer_norm_dtypes = any_float;   // Skip(Simplified)LayerNormalization
  DataTypeSet fused_matmul_dtypes = any_float;      // FusedMatMul
  DataTypeSet gelu_dtypes = any_float;              // BiasGelu, FastGelu
  DataTypeSet fused_moe_dtypes = {};                // MoE: where experts become one; of those that others wrote too
  std::int64_t fused_moe_size_multiple = 1;         // MoE: of the hidden size and the experts' width
  DataTypeSet packed_multi_head_attention_dtypes = {ir::DataType::float32, ir::DataType::float16};

  // ── standard ops that a kernel lacks or gets wrong ──
  bool supports_rank4_rmsnorm = true;     // no: a rank-4 RMSNormalization goes through rank 3
  bool supports_attention = true;         // no: Attention becomes MatMul and Softmax
  bool supports_matmul_nbits = true;      // no: DequantizeLinear and MatMul
  bool supports_rotary_embedding = true;  // no: rotate-half primitives
  bool supports_tensor_scatter = true;    // no: ScatterND
  bool supports_range = true;             // no: a constant range and Slice

  // ── what the runtime wants to know ──
  int default_int4_accuracy_level = 0;                       // MatMulNBits accuracy_level: 0 = unset, 1 = f32 ... 4 = int8, the fastest
  std::map<std::string, std::string> provider_options = {};  // ONNX Runtime GenAI's default provider options
  std::optional<std::string> genai_provider = {};            // ONNX Runtime GenAI's name of the provider; absent: as here; "": it runs on the CPU there
  bool enable_graph_capture = false;                         // GPU graph capture by default
  std::string graph_capture_option = {};                     // the provider option that says so ("1" or "0"); empty: there is none
  bool requires_graph_capture_rewrite = false;               // shapes must not be computed on the host (EliminateShape)
  bool supports_past_present_share_buffer = false;           // GenAI's past_present_share_buffer
  bool cap_kv_buffer_max_length = false;                     // cap search.max_length: the shared buffer is allocated at once
  std::optional<std::uint64_t> max_buffer_size = {};         // bytes; no single tensor above it
  bool supports_fp8_kv_cache = false;                        // the KV cache may be FLOAT8E4M3FN

  // ── format ──
  std::int64_t max_opset = 24;  // highest ai.onnx opset
  std::int64_t max_ir = 11;     // highest IR version

  bool operator==(const EpCapabilities&) const = default;
};

}  // namespace mobius

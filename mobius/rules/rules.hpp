// The rules, one group per file. The order in which they run, and why, is in passes/pipeline.cpp.
//
//   rewrite::apply(skip_norm(), graph, target);
#pragma once
#include "mobius/rewrite/rule.hpp"

namespace mobius::rules {

// ── what others decompose, in one form ──
rewrite::RuleGroup layer_norm_fusion();   // (x - mean) / sqrt(variance + e) ...  ⟶  LayerNormalization
rewrite::RuleGroup gelu_fusion();         // 0.5 * x * (1 + erf(...)) or tanh  ⟶  Gelu
rewrite::RuleGroup rms_norm_fusion();     // x / sqrt(mean(x * x) + e) ...        ⟶  RMSNormalization
rewrite::RuleGroup linear();              // Reshape(Gemm(Reshape(x), w, b))    ⟶  MatMul(x, w) + b
rewrite::RuleGroup rotary_fusion();       // x * cos + concat(-x2, x1) * sin ...  ⟶  RotaryEmbedding
rewrite::RuleGroup attention_fusion();    // softmax(c * q kT + mask) v           ⟶  Attention
rewrite::RuleGroup attention_layout();    // Attention with turned operands       ⟶  Attention on [batch, length, heads * size], with its cache
rewrite::RuleGroup unattended_queries();  // Where(unattended, 0, Attention)     ⟶  Attention with a mask of yes and no

// ── fusions ──
rewrite::RuleGroup fused_matmul();                 // c · (a · wᵀ)                     ⟶  FusedMatMul(a, w; alpha = c, transB)
rewrite::RuleGroup moe_fusion();                   // experts gathered for each token  ⟶  MoE
rewrite::RuleGroup gqa_fusion();                   // Attention, RotaryEmbedding       ⟶  GroupQueryAttention
rewrite::RuleGroup packed_multi_head_attention();  // Attention that keeps sequences apart  ⟶  PackedMultiHeadAttention
rewrite::RuleGroup pack_qkv();                     // three projections into one       ⟶  GroupQueryAttention with packed QKV
rewrite::RuleGroup bias_gelu();                    // Gelu(x + b)                      ⟶  BiasGelu
rewrite::RuleGroup fast_gelu();                    // Gelu(x + b; tanh)                ⟶  FastGelu
rewrite::RuleGroup skip_norm();                    // RMSNorm(x + skip)                ⟶  SkipSimplifiedLayerNormalization
rewrite::RuleGroup skip_layer_norm();              // LayerNorm(x + skip)              ⟶  SkipLayerNormalization

// ── lowerings ──
rewrite::RuleGroup tied_head();                   // x · Wᵀ of a shared W  ⟶  Gemm
rewrite::RuleGroup unpack_qkv();                  // GroupQueryAttention with packed QKV  ⟶  three projections
rewrite::RuleGroup separate_rope();               // GroupQueryAttention with rope inside  ⟶  RotaryEmbedding before it
rewrite::RuleGroup eliminate_shape();             // total_sequence_length without Shape
rewrite::RuleGroup decompose_attention();         // Attention        ⟶  MatMul, Softmax, MatMul
rewrite::RuleGroup decompose_rotary_embedding();  // RotaryEmbedding  ⟶  products with cos and sin of the halves
rewrite::RuleGroup scatter_nd();                  // TensorScatter    ⟶  ScatterND
rewrite::RuleGroup constant_range();              // Range            ⟶  the beginning of a constant range
rewrite::RuleGroup rank3_rms_norm();              // RMSNormalization of rank 4  ⟶  of rank 3, between two Reshapes

}  // namespace mobius::rules

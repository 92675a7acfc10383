// The rules, one group per file. The order in which they run, and why, is in passes/pipeline.cpp.
#pragma once
#include "mobius/rewrite/rule.hpp"

namespace mobius::rules {

rewrite::RuleGroup fused_matmul();  // MatMul(x, Transpose(w))  ⟶  FusedMatMul(x, w; transB)
rewrite::RuleGroup gqa_fusion();    // Attention, RotaryEmbedding ⟶  GroupQueryAttention
rewrite::RuleGroup skip_norm();     // RMSNorm(x + skip)        ⟶  SkipSimplifiedLayerNormalization

}  // namespace mobius::rules

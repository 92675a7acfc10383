// The rules, one per file. The order in which they run, and why, is in passes/pipeline.cpp.
#pragma once
#include "mobius/rewrite/rule.hpp"

namespace mobius::rules {

rewrite::Rule fused_matmul();  // MatMul(x, Transpose(w))  ⟶  FusedMatMul(x, w; transB)
rewrite::Rule skip_norm();     // RMSNorm(x + skip)        ⟶  SkipSimplifiedLayerNormalization

}  // namespace mobius::rules

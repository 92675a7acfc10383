// What each opset brought, as tables.
#include "mobius/ops/versions.hpp"

#include <algorithm>
#include <initializer_list>

namespace mobius::ops {
namespace {

using enum ir::DataType;

struct NewOperator {
  std::string_view op;
  std::int64_t since;
};
constexpr NewOperator new_operators[] = {
    {"DeformConv", 19},      {"AffineGrid", 20},    {"Gelu", 20},      {"ImageDecoder", 20},     {"RegexFullMatch", 20},
    {"StringConcat", 20},    {"StringSplit", 20},   {"Attention", 23}, {"RMSNormalization", 23}, {"RotaryEmbedding", 23},
    {"Swish", 24},           {"TensorScatter", 24}, {"BitCast", 26},   {"CumProd", 26},          {"CausalConvWithState", 27},
    {"LinearAttention", 27}, {"SwiGLU", 28},
};

struct NewAttribute {
  std::string_view op, attribute;
  std::int64_t since;
};
constexpr NewAttribute new_attributes[] = {
    {"AveragePool", "dilations", 19},       {"Cast", "saturate", 19},
    {"CastLike", "saturate", 19},           {"QuantizeLinear", "saturate", 19},
    {"DequantizeLinear", "block_size", 21}, {"QuantizeLinear", "block_size", 21},
    {"QuantizeLinear", "output_dtype", 21}, {"DequantizeLinear", "output_dtype", 23},
    {"QuantizeLinear", "precision", 23},    {"Cast", "round_mode", 24},
    {"CastLike", "round_mode", 24},         {"Attention", "left_window_size", 25},
    {"Attention", "right_window_size", 25}, {"Range", "stash_type", 27},
    {"SpaceToDepth", "mode", 28},
};

struct NewInput {
  std::string_view op;
  std::size_t input;
  std::int64_t since;
};
constexpr NewInput new_inputs[] = {{"Attention", 6, 24}};

// Element types that came after most operators.
struct NewType {
  ir::DataType type;
  std::int64_t since;
  std::int64_t ir_version;
};
constexpr NewType new_types[] = {
    {float8e4m3fn, 19, 9}, {float8e4m3fnuz, 19, 9}, {float8e5m2, 19, 9},  {float8e5m2fnuz, 19, 9}, {uint4, 21, 10},
    {int4, 21, 10},        {float4e2m1, 23, 11},    {float8e8m0, 24, 12}, {uint2, 25, 13},         {int2, 25, 13},
};

// Element types that single operators learnt later.
struct LaterType {
  ir::DataType type;
  std::int64_t since;
  std::initializer_list<std::string_view> ops;
};
const LaterType later_types[] = {
    {string, 19, {"Equal"}},
    {boolean, 20, {"ReduceMax", "ReduceMin"}},
    {float16, 20, {"IsInf"}},
    {bfloat16, 20, {"IsInf", "ConstantOfShape"}},
    {bfloat16,
     22,
     {"Acos",
      "Acosh",
      "Asin",
      "Asinh",
      "Atan",
      "Atanh",
      "AveragePool",
      "Bernoulli",
      "Conv",
      "ConvTranspose",
      "Cos",
      "Cosh",
      "DeformConv",
      "Det",
      "Elu",
      "EyeLike",
      "GRU",
      "GlobalAveragePool",
      "GlobalLpPool",
      "GlobalMaxPool",
      "GridSample",
      "HardSigmoid",
      "HardSwish",
      "InstanceNormalization",
      "LSTM",
      "LpNormalization",
      "LpPool",
      "MaxPool",
      "MaxRoiPool",
      "MaxUnpool",
      "Mish",
      "Multinomial",
      "NegativeLogLikelihoodLoss",
      "RNN",
      "RandomNormal",
      "RandomNormalLike",
      "RandomUniform",
      "RandomUniformLike",
      "RoiAlign",
      "Round",
      "Selu",
      "Sin",
      "Sinh",
      "Softplus",
      "Softsign",
      "Tan",
      "ThresholdedRelu"}},
    {bfloat16, 24, {"TopK", "SplitToSequence"}},
    {bfloat16, 27, {"Range"}},
    {float16, 27, {"Range"}},
    {bfloat16, 28, {"Celu", "Compress", "Einsum", "OneHot", "ReverseSequence", "Unique"}},
    {float16, 28, {"Celu"}},
    {float64, 28, {"Celu"}},
};

// Operators that an opset changed, so that a node of the version before can't stay as it is. (Resize-18 and -19 have new attributes whose
// defaults are said to keep the meaning; runtimes were not seen to agree on it.)
// (Upsample and Scatter are no more; OneHot's negative indices count from the end.)
constexpr NewOperator changed[] = {{"Upsample", 10},     {"Resize", 11},         {"OneHot", 11}, {"Scatter", 11},    {"RoiAlign", 16},
                                   {"Resize", 18},       {"Resize", 19},         {"DFT", 20},    {"GridSample", 20}, {"GroupNormalization", 21},
                                   {"ReduceLogSum", 28}, {"ReduceLogSumExp", 28}};
// Attributes that are operands since an opset; those of Split's parts and of most reductions are asked about apart.
constexpr NewAttribute older_attributes[] = {{"Slice", "starts", 10}, {"TopK", "k", 10},         {"Pad", "pads", 11},     {"Dropout", "ratio", 12},
                                             {"Split", "split", 13},  {"ReduceSum", "axes", 13}, {"Squeeze", "axes", 13}, {"Unsqueeze", "axes", 13}};
// Their axes are an operand since opset 18 (those of ReduceSum since 13).
constexpr std::string_view reductions[] = {"ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                                           "ReduceMean", "ReduceMin", "ReduceProd",   "ReduceSumSquare"};

bool is_onnx(ir::OpName op) { return op.domain.empty() || op.domain == "ai.onnx"; }

std::int64_t types_since(const ir::Node& node, const ir::Value* value) {
  if (!value) return 1;
  std::int64_t least = 1;
  for (const auto& t : new_types)
    if (value->dtype() == t.type) least = std::max(least, t.since);
  for (const auto& t : later_types)
    if (value->dtype() == t.type && std::ranges::find(t.ops, node.op.type) != t.ops.end()) least = std::max(least, t.since);
  return least;
}

}  // namespace

std::int64_t newer_form_since(const ir::Node& node) {
  if (!is_onnx(node.op)) return 0;
  const auto type = node.op.type;
  for (const auto& older : older_attributes)
    if (older.op == type && node.attribute(older.attribute)) return older.since;
  if (type == "Softmax" || type == "LogSoftmax" || type == "Hardmax") return 13;
  if (type == "Clip") return node.input(1) || node.input(2) ? 0 : 11;
  if (type == "Dropout") return node.outputs().size() > 1 ? 12 : 0;
  if (type == "Split") return !node.input(1) && !node.attribute("num_outputs") ? 18 : 0;
  return node.attribute("axes") && std::ranges::find(reductions, type) != std::end(reductions) ? 18 : 0;
}

std::int64_t since(ir::OpName op) {
  if (!is_onnx(op)) return 1;
  const auto* found = std::ranges::find(new_operators, op.type, &NewOperator::op);
  return found == std::end(new_operators) ? 1 : found->since;
}

std::int64_t least_opset(const ir::Node& node) {
  if (!is_onnx(node.op)) return 1;
  auto least = since(node.op);
  for (const auto& a : new_attributes)
    if (a.op == node.op.type && node.attribute(a.attribute)) least = std::max(least, a.since);
  for (const auto& i : new_inputs)
    if (i.op == node.op.type && node.input(i.input)) least = std::max(least, i.since);
  for (const auto* list : {&node.inputs(), &node.outputs()})
    for (const auto* value : *list) least = std::max(least, types_since(node, value));
  return least;
}

bool differs_between(const ir::Node& node, std::int64_t a, std::int64_t b) {
  if (!is_onnx(node.op)) return false;
  const auto low = std::min(a, b), high = std::max(a, b);
  if (low < oldest_known) return low != high;
  if (low < 14 && high >= 14 && node.op.type == "BatchNormalization" && node.outputs().size() > 1) return true;  // it was training
  // How it pads by itself was said otherwise.
  if (low < 11 && high >= 11 && node.op.type == "ConvTranspose" && (node.attribute("auto_pad") || node.attribute("output_shape"))) return true;
  if (const auto since = newer_form_since(node); low < since && since <= high) return true;
  return std::ranges::any_of(changed, [&](const auto& c) { return c.op == node.op.type && low < c.since && c.since <= high; });
}

std::int64_t ir_version_of(std::int64_t opset) {
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  if (opset <= 24) return 11;
  return opset <= 25 ? 12 : 13;
}

std::int64_t least_ir_version(ir::DataType type) {
  for (const auto& t : new_types)
    if (t.type == type) return t.ir_version;
  return 1;
}

bool is_standard_domain(std::string_view domain) { return domain.empty() || domain == "ai.onnx" || domain == "ai.onnx.ml"; }

}  // namespace mobius::ops

// Inference: normalisations, softmax, quantisation, recurrent layers, Einsum.
#include <algorithm>

#include "mobius/ops/infer_context.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;

void infer_softmax(InferContext& c) {
  if (auto n = c.rank(0); n && *n > 0) c.axis(c.int_attribute("axis", -1), *n);
  c.same_as_input();
}

// A weight of a normalisation must be broadcastable to the normalised axes.
void want_weight(const InferContext& c, std::size_t i, const Shape& normalized) {
  if (!c.has(i) || !c.shape(i)) return;
  auto together = ir::broadcast(normalized, *c.shape(i));
  bool fits = together && together->size() == normalized.size();
  for (std::size_t k = 0; fits && k < normalized.size(); ++k) fits = !known_to_differ((*together)[k], normalized[k]);
  if (!fits) c.error("input {} is {}, expected {} (the normalised axes of {})", i, c.show(i), ir::to_string(normalized), c.show(0));
}

// LayerNormalization, RMSNormalization, SimplifiedLayerNormalization: statistics have size 1 on the normalised axes. The result has
// the element type of the scale, which for a LayerNormalization is that of x too.
void infer_layer_norm(InferContext& c) {
  c.output(0, c.dtype(1), c.shape(0));
  auto stash = c.dtype_attribute("stash_type", DataType::float32);
  if (!c.shape(0)) {
    for (std::size_t i = 1; i < c.outputs(); ++i) c.output(i, stash);
    return;
  }
  const Shape& x = *c.shape(0);
  auto axis = c.axis(c.int_attribute("axis", -1), x.size());
  Shape normalized(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
  want_weight(c, 1, normalized);
  want_weight(c, 2, normalized);
  Shape statistics = x;
  std::fill(statistics.begin() + static_cast<std::ptrdiff_t>(axis), statistics.end(), Dim(1));
  for (std::size_t i = 1; i < c.outputs(); ++i) c.output(i, stash, statistics);
}

void want_channels(const InferContext& c, std::size_t first, std::size_t last) {
  if (auto n = c.rank(0); n && *n < 2) c.error("input is {}, expected rank 2 or more", c.show(0));
  for (std::size_t i = first; i <= last; ++i) {
    if (c.rank(i) == std::optional<std::size_t>(1)) c.want_equal(c.dim(i, 0), c.dim(0, 1), "channel counts");
  }
}

void infer_instance_norm(InferContext& c) {
  want_channels(c, 1, 2);
  c.same_as_input();
}

void infer_group_norm(InferContext& c) {
  auto groups = c.required_int("num_groups");
  auto channels = c.dim(0, 1);
  if (groups <= 0 || (channels.is_static() && channels.value() % groups != 0)) c.error("{} channels don't divide into {} groups", channels.to_string(), groups);
  c.same_as_input();
}

void infer_batch_norm(InferContext& c) {
  want_channels(c, 1, 4);
  c.same_as_input();
  for (std::size_t i = 1; i < c.outputs(); ++i) c.output(i, c.dtype(i + 2), Shape{c.dim(0, 1)});
}

// ── quantisation ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// Per tensor, per axis, or blocked: then the scale has ceil(size / block_size) entries on the axis.
void want_scale(const InferContext& c) {
  if (!c.shape(0) || !c.shape(1)) return;
  const Shape &x = *c.shape(0), &scale = *c.shape(1);
  auto block = c.int_attribute("block_size", 0);
  if (block < 0) c.error("block_size is {}", block);
  if (scale.empty() || (scale.size() == 1 && (block == 0 || scale[0] == Dim(1)))) {
    if (scale.size() == 1 && !(scale[0] == Dim(1)) && !x.empty())
      c.want_equal(scale[0], x[c.axis(c.int_attribute("axis", 1), x.size())], "scale and axis sizes");
    return;
  }
  if (block == 0) return;
  if (scale.size() != x.size()) c.error("blocked scale is {} for {}", c.show(1), c.show(0));
  auto axis = c.axis(c.int_attribute("axis", 1), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!x[i].is_static() || !scale[i].is_static()) continue;
    auto want = i == axis ? (x[i].value() + block - 1) / block : x[i].value();
    if (scale[i].value() != want) c.error("blocked scale is {} for {} with block_size {} on axis {}", c.show(1), c.show(0), block, axis);
  }
}

void infer_dequantize(InferContext& c) {
  want_scale(c);
  c.output(0, c.dtype_attribute("output_dtype", c.dtype(1)), c.shape(0));
}

void infer_quantize(InferContext& c) {
  want_scale(c);
  auto otherwise = c.has(2) ? c.dtype(2) : DataType::uint8;
  c.output(0, c.dtype_attribute("output_dtype", otherwise), c.shape(0));
}

void infer_dynamic_quantize(InferContext& c) {
  c.output(0, DataType::uint8, c.shape(0));
  c.output(1, c.dtype(0), Shape{});
  c.output(2, DataType::uint8, Shape{});
}

// ── recurrent layers ─────────────────────────────────────────────────────────────────────────────────────────────────────

// X [seq, batch, input] (layout 1: [batch, seq, input]) -> Y [seq, dirs, batch, hidden], Y_h and Y_c [dirs, batch, hidden]
void infer_recurrent(InferContext& c) {
  c.want_rank(0, 3);
  bool batch_first = c.int_attribute("layout", 0) != 0;
  Dim seq = c.dim(0, batch_first ? 1 : 0), batch = c.dim(0, batch_first ? 0 : 1);
  Dim dirs = c.node().string_attribute("direction", "forward") == "bidirectional" ? 2 : 1;
  Dim hidden = c.node().attribute("hidden_size") ? Dim(c.int_attribute("hidden_size", 0)) : c.dim(2, 2);
  c.output(0, c.dtype(0), batch_first ? Shape{batch, seq, dirs, hidden} : Shape{seq, dirs, batch, hidden});
  Shape last = batch_first ? Shape{batch, dirs, hidden} : Shape{dirs, batch, hidden};
  for (std::size_t i = 1; i < c.outputs(); ++i) c.output(i, c.dtype(0), last);
}

// ── Einsum ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

struct EinsumSizes {
  std::unordered_map<char, Dim> letters;
  Shape ellipsis;
};

// Reads one operand's term; false when the operand's shape isn't known.
bool read_einsum_term(const InferContext& c, std::size_t i, std::string_view term, EinsumSizes& sizes) {
  if (!c.shape(i)) return false;
  const Shape& x = *c.shape(i);
  auto dots = term.find("...");
  auto named = term.size() - (dots == std::string_view::npos ? 0 : 3);
  if (x.size() < named || (dots == std::string_view::npos && x.size() != named)) c.error("term '{}' does not fit {}", term, c.show(i));
  std::size_t axis = 0;
  for (std::size_t k = 0; k < term.size(); ++k) {
    if (k == dots) {
      auto more = x.size() - named;
      auto together = ir::broadcast(sizes.ellipsis, Shape(x.begin() + static_cast<std::ptrdiff_t>(axis), x.begin() + static_cast<std::ptrdiff_t>(axis + more)));
      if (!together) c.error("axes under '...' can't be broadcast");
      sizes.ellipsis = std::move(*together);
      axis += more;
      k += 2;
      continue;
    }
    auto [at, added] = sizes.letters.try_emplace(term[k], x[axis]);
    if (!added) {
      if (known_to_differ(at->second, x[axis]) && !(at->second == Dim(1)) && !(x[axis] == Dim(1))) {
        c.error("sizes {} and {} of '{}' differ", at->second.to_string(), x[axis].to_string(), term[k]);
      }
      if (!at->second.is_static() || at->second.value() == 1) at->second = x[axis].is_unknown() ? at->second : x[axis];
    }
    ++axis;
  }
  return true;
}

void infer_einsum(InferContext& c) {
  std::string equation;
  for (char ch : c.node().string_attribute("equation", "")) {
    if (ch != ' ') equation.push_back(ch);
  }
  if (equation.empty()) c.error("attribute 'equation' is required");
  std::string_view left = equation, right;
  auto arrow = left.find("->");
  if (arrow != std::string_view::npos) {
    right = left.substr(arrow + 2);
    left = left.substr(0, arrow);
  }
  EinsumSizes sizes;
  std::map<char, int> count;
  std::size_t i = 0;
  for (std::string_view rest = left;; ++i) {
    auto comma = rest.find(',');
    auto term = rest.substr(0, comma);
    if (i >= c.inputs()) c.error("equation '{}' has more terms than inputs", equation);
    for (char ch : term) {
      if (ch != '.') ++count[ch];
    }
    if (!read_einsum_term(c, i, term, sizes)) return c.output(0, c.dtype(0));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (i + 1 != c.inputs()) c.error("equation '{}' has {} terms for {} inputs", equation, i + 1, c.inputs());
  std::string implicit;
  if (arrow == std::string_view::npos) {
    implicit = "...";
    for (auto [letter, n] : count) {
      if (n == 1) implicit.push_back(letter);
    }
    right = implicit;
  }
  Shape result;
  for (std::size_t k = 0; k < right.size(); ++k) {
    if (right[k] == '.') {
      result.insert(result.end(), sizes.ellipsis.begin(), sizes.ellipsis.end());
      k += 2;
    } else if (auto found = sizes.letters.find(right[k]); found != sizes.letters.end()) {
      result.push_back(found->second);
    } else {
      c.error("output letter '{}' of '{}' is in no term", right[k], equation);
    }
  }
  c.output(0, c.dtype(0), std::move(result));
}

}  // namespace

void add_infer_nn(InferTable& table) {
  auto& onnx = table.onnx;
  for (auto name : {"Softmax", "LogSoftmax", "Hardmax"}) onnx[name] = {infer_softmax, 1};
  onnx["LayerNormalization"] = onnx["RMSNormalization"] = onnx["SimplifiedLayerNormalization"] = {infer_layer_norm, 2};
  onnx["InstanceNormalization"] = {infer_instance_norm, 3};
  onnx["GroupNormalization"] = {infer_group_norm, 3};
  onnx["BatchNormalization"] = {infer_batch_norm, 5};
  for (auto name : {"LpNormalization", "MeanVarianceNormalization", "LRN"}) onnx[name] = {infer_same, 1};
  onnx["DequantizeLinear"] = {infer_dequantize, 2};
  onnx["QuantizeLinear"] = {infer_quantize, 2};
  onnx["DynamicQuantizeLinear"] = {infer_dynamic_quantize, 1};
  onnx["LSTM"] = onnx["GRU"] = onnx["RNN"] = {infer_recurrent, 3};
  onnx["Einsum"] = {infer_einsum, 1};
}

}  // namespace mobius::ops

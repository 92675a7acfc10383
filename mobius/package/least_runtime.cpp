// Two tables: what releases take, and what they got wrong. A release is the number behind "1.".
#include "mobius/package/least_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "mobius/ops/vocabulary.hpp"
#include "mobius/passes/passes.hpp"
#include "mobius/passes/walk.hpp"

namespace mobius::package {
namespace {

struct Release {
  std::int64_t opset, ir_version;  // the newest that it takes
  int release;
};
// From opset 23 on by running attention operators of that opset. 1.18 takes opset 21, but gets function bodies wrong.
constexpr Release releases[] = {{19, 9, 16}, {20, 9, 17}, {21, 10, 19}, {22, 10, 21}, {23, 11, 23}, {24, 12, 24}, {26, 13, 30}, {28, 14, 32}};

std::int64_t heads_of(const ir::Node& n, std::size_t operand, std::string_view attribute) {
  const auto* x = n.input(operand);
  return x && x->rank() == 4u ? (*x->shape())[1].as_static().value_or(0) : n.int_attribute(attribute, 0);
}
bool has_mask_by_head(const ir::Node& n) {
  const auto* mask = n.input(3);
  const bool has_own = mask && mask->rank() == 4u && (*mask->shape())[1].as_static() != 1;
  return has_own && heads_of(n, 0, "q_num_heads") != heads_of(n, 1, "kv_num_heads");
}

bool is_half_without_division(const ir::Node& n) {
  return n.output()->dtype() == ir::DataType::float16 && n.int_attribute("normalize_routing_weights", 0) == 0;
}

// An operator, or a form of it, that is right from this release on.
struct Form {
  ir::OpName op;
  bool (*is)(const ir::Node&);
  int release;
};
const Form forms[] = {
    {{"", "Attention"}, has_mask_by_head, 25},  // refused, where heads of keys are fewer
    {{"", "Attention"}, [](const ir::Node& n) { return n.float_attribute("softcap", 0) != 0; }, 27},
    {{ops::microsoft, "GroupQueryAttention"}, [](const ir::Node&) { return true; }, 20},                      // several tokens behind a cache
    {{ops::microsoft, "GroupQueryAttention"}, [](const ir::Node& n) { return n.input(10) != nullptr; }, 22},  // attention_bias: refused
    {{ops::microsoft, "GroupQueryAttention"}, [](const ir::Node& n) { return n.input(11) != nullptr; }, 24},  // head_sink
    {{ops::microsoft, "GroupQueryAttention"}, [](const ir::Node& n) { return n.int_attribute("local_window_size", -1) > 0; }, 24},
    {{ops::microsoft, "MoE"}, [](const ir::Node&) { return true; }, 23},  // no kernel before
    {{ops::microsoft, "MoE"}, is_half_without_division, 32},
};

}  // namespace

std::string least_onnxruntime(const ir::Model& model) {
  const auto opset = passes::opset_of(model);
  const auto* found = std::ranges::find_if(releases, [&](const Release& r) { return opset <= r.opset && model.ir_version <= r.ir_version; });
  if (found == std::end(releases)) return "unknown";
  int least = found->release;
  passes::for_each_node(*model.graph, [&](const ir::Node& n) {
    for (const auto& form : forms)
      if (form.op == n.op && form.is(n)) least = std::max(least, form.release);
  });
  return fmt::format("1.{}", least);
}

}  // namespace mobius::package

// Look-up, registration and consistency of execution providers.
#include "mobius/ep/registry.hpp"

#include <deque>
#include <mutex>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/ep/versions.hpp"

namespace mobius {
namespace {

struct Table {
  std::mutex mutex;
  std::deque<EpCapabilities> entries;  // a deque: references stay valid while it grows
  Table() {
    for (auto& ep : builtin_eps()) entries.push_back(std::move(ep));
  }
  EpCapabilities* find(std::string_view name) {
    for (auto& e : entries)
      if (e.name == name) return &e;
    return nullptr;
  }
};

Table& table() {
  static Table t;
  return t;
}

void check(const EpCapabilities& ep) {
  if (ep.name.empty()) fail(ErrorKind::invalid_argument, "An execution provider needs a name");
  if (!ep.supports_fused_rope && !ep.qkv_pack_dtypes.empty())
    fail(ErrorKind::invalid_argument, "Execution provider '{}': supports_fused_rope = false needs empty qkv_pack_dtypes", ep.name);
  if (!ep.supports_fused_moe && !ep.fused_moe_dtypes.empty())
    fail(ErrorKind::invalid_argument, "Execution provider '{}': supports_fused_moe = false needs empty fused_moe_dtypes", ep.name);
  if (ep.cap_kv_buffer_max_length && !ep.supports_past_present_share_buffer)
    fail(ErrorKind::invalid_argument, "Execution provider '{}': cap_kv_buffer_max_length needs supports_past_present_share_buffer", ep.name);
  const auto capture = ep.provider_options.find(ep.graph_capture_option);
  if (capture != ep.provider_options.end() && capture->second != (ep.enable_graph_capture ? "1" : "0"))
    fail(ErrorKind::invalid_argument, "Execution provider '{}': provider option {} is '{}', but enable_graph_capture is {}", ep.name, capture->first,
         capture->second, ep.enable_graph_capture);
  const std::pair<const char*, std::int64_t> positive[] = {{"gqa_head_size_multiple", ep.gqa_head_size_multiple},
                                                           {"gqa_rotary_head_size_multiple", ep.gqa_rotary_head_size_multiple},
                                                           {"gqa_rotary_table_multiple", ep.gqa_rotary_table_multiple},
                                                           {"fused_moe_size_multiple", ep.fused_moe_size_multiple}};
  for (const auto& [field, value] : positive)
    if (value <= 0) fail(ErrorKind::invalid_argument, "Execution provider '{}': {} is {}, expected 1 or more", ep.name, field, value);
  if (ep.max_opset < lowest_opset || ep.max_opset > newest_opset)
    fail(ErrorKind::invalid_argument, "Execution provider '{}': max_opset is {}, expected {} to {}", ep.name, ep.max_opset, lowest_opset, newest_opset);
  if (ep.max_ir < lowest_max_ir)
    fail(ErrorKind::invalid_argument, "Execution provider '{}': max_ir is {}, expected {} or more", ep.name, ep.max_ir, lowest_max_ir);
  if (!ep.dtypes.contains(ep.fallback_dtype))
    fail(ErrorKind::invalid_argument, "Execution provider '{}': fallback_dtype {} is not among its dtypes", ep.name, ir::short_name(ep.fallback_dtype));
}

}  // namespace

EpRegistry& ep_registry() {
  static EpRegistry r;
  return r;
}

const EpCapabilities* EpRegistry::get(std::string_view name) const {
  const std::lock_guard lock(table().mutex);
  return table().find(name);
}

const EpCapabilities& EpRegistry::require(std::string_view name) const {
  if (const auto* ep = get(name)) return *ep;
  std::string known;
  for (const auto& n : names()) known += (known.empty() ? "" : ", ") + n;
  fail(ErrorKind::invalid_argument, "Unknown execution provider '{}'. Supported: {}", name, known);
}

void EpRegistry::register_ep(EpCapabilities capabilities, bool overwrite) {
  check(capabilities);
  const std::lock_guard lock(table().mutex);
  auto* known = table().find(capabilities.name);
  if (!known) table().entries.push_back(std::move(capabilities));
  else if (overwrite) *known = std::move(capabilities);
  else fail(ErrorKind::invalid_argument, "Execution provider '{}' is already registered; pass overwrite to replace it", capabilities.name);
}

std::vector<std::string> EpRegistry::names() const {
  const std::lock_guard lock(table().mutex);
  std::vector<std::string> out;
  for (const auto& e : table().entries) out.push_back(e.name);
  return out;
}

ir::DataType choose_dtype(const EpCapabilities& ep, std::optional<ir::DataType> asked, ir::DataType checkpoint) {
  if (asked) {
    if (ep.dtypes.contains(*asked)) return *asked;
    std::string known;
    for (auto t : {ir::DataType::float32, ir::DataType::float16, ir::DataType::bfloat16})
      if (ep.dtypes.contains(t)) known += (known.empty() ? "" : ", ") + std::string(ir::short_name(t));
    fail(ErrorKind::invalid_argument, "Execution provider '{}' does not run {}; it runs {}", ep.name, ir::short_name(*asked), known);
  }
  if (ep.dtypes.contains(checkpoint)) return checkpoint;
  logging::info("The checkpoint is {}, which '{}' does not run: building in {}", ir::short_name(checkpoint), ep.name, ir::short_name(ep.fallback_dtype));
  return ep.fallback_dtype;
}

}  // namespace mobius

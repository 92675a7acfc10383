// The registry of execution providers: the built-in table, and what is registered at run time.
//
//   for (const auto& name : ep_registry().names()) ...
//   ep_registry().require("cuda").gqa_dtypes
//   register_ep({.name = "my-ep", .gqa_dtypes = {ir::DataType::float16}});
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "mobius/ep/capabilities.hpp"

namespace mobius {

// Thread-safe. Entries are never removed, so references stay valid, except that overwriting replaces an entry's value.
class EpRegistry {
 public:
  const EpCapabilities* get(std::string_view name) const;      // nullptr when unknown
  const EpCapabilities& require(std::string_view name) const;  // Error invalid_argument: "Unknown execution provider 'rocm'. Supported: ..."
  // Errors invalid_argument: the name is taken (unless overwrite), is empty, or fields contradict each other.
  void register_ep(EpCapabilities capabilities, bool overwrite = false);
  std::vector<std::string> names() const;  // built-in ones in the table's order, then in order of registration
};

EpRegistry& ep_registry();
inline void register_ep(EpCapabilities capabilities, bool overwrite = false) { ep_registry().register_ep(std::move(capabilities), overwrite); }
inline const EpCapabilities& get_ep(std::string_view name) { return ep_registry().require(name); }

// The dtype a model is built in (specification notes 13): the one asked for, or the checkpoint's where the EP runs it, else the
// EP's fallback. Error invalid_argument when the one asked for can't run there.
ir::DataType choose_dtype(const EpCapabilities& ep, std::optional<ir::DataType> asked, ir::DataType checkpoint);

// The built-in table (builtin.cpp).
std::vector<EpCapabilities> builtin_eps();

}  // namespace mobius

// Options of the target, and what is made of them.
#include "cli/target.hpp"

#include <algorithm>

#include "cli/choices.hpp"
#include "mobius/base/error.hpp"
#include "mobius/base/file.hpp"
#include "mobius/ep/fields.hpp"
#include "mobius/ep/registry.hpp"

namespace mobius::cli {

std::vector<Option> target_options(TargetFlags& flags) {
  const auto any_name = [](const std::string& name) { return !name.empty(); };  // --ep-file may bring it: chosen_ep looks
  return {
      {"--ep,--execution-provider", "NAME", "what the graph shall run on; otherwise default, which is portable", &flags.ep, ep_names(), any_name},
      {"--ep-file", "FILE", "an execution provider of your own, as JSON (mobius list ep-fields)", &flags.ep_file, {}, {}, Completes::files},
      {"--dtype", "TYPE", "of weights and computation", &flags.dtype, dtype_names(), is_dtype},
      {"--opset", "N", "ai.onnx opset to write, 21 or more; absent: the execution provider's highest", &flags.opset},
      {"--padding", "SIDE", "which batches a decoder takes, padded on the right or on any side; otherwise right", &flags.padding, {"right", "any"}},
      {"--trace", "", "show what the optimisation does, on standard error", &flags.trace},
      {"--trace-json", "FILE", "write what the optimisation did as JSON", &flags.trace_json, {}, {}, Completes::files},
  };
}

std::string chosen_ep(const TargetFlags& flags) {
  std::string own;
  if (!flags.ep_file.empty()) {
    Json json;
    try {
      json = Json::parse(read_text_file(flags.ep_file), Json::RepeatedKeys::refused);
    } catch (const Error& e) {
      throw e.kind() == ErrorKind::corrupt_file ? e.within(flags.ep_file) : e;
    }
    auto ep = ep_from_json(json, flags.ep_file);
    own = ep.name;
    if (ep_registry().get(own))
      fail(ErrorKind::invalid_argument, "{}: Execution provider '{}' is already registered; give yours another name", flags.ep_file, own);
    try {
      register_ep(std::move(ep));
    } catch (const Error& e) {
      throw e.within(flags.ep_file);
    }
  }
  if (flags.ep.empty()) return own.empty() ? "default" : own;
  const auto known = ep_names();
  if (std::ranges::find(known, flags.ep) == known.end()) throw UsageError("--ep: found '" + flags.ep + "', expected " + one_of(known));
  return flags.ep;
}

std::optional<ir::DataType> chosen_dtype(const TargetFlags& flags) { return flags.dtype.empty() ? std::nullopt : ir::data_type_from_user(flags.dtype); }

std::optional<std::int64_t> chosen_opset(const TargetFlags& flags) {
  return flags.opset == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(flags.opset));
}

rewrite::Padding chosen_padding(const TargetFlags& flags) { return flags.padding == "any" ? rewrite::Padding::any : rewrite::Padding::right; }

namespace {

// What an earlier run wrote there may be replaced, nothing else.
bool is_trace(const fs::path& path) {
  try {
    const auto trace = Json::parse(read_text_file(path));
    const auto is_report = [](const Json& j) { return j.is_object() && j.find("steps"); };
    return trace.is_object() && (is_report(trace) || std::ranges::all_of(trace.as_object(), [&](const auto& part) { return is_report(part.second); }));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_trace_file(const TargetFlags& flags) {
  if (flags.trace_json.empty()) return;
  const bool exists = fs::exists(flags.trace_json);
  if (flags.trace_json == "-" || (exists && !fs::is_regular_file(flags.trace_json)))
    fail(ErrorKind::invalid_argument, "--trace-json: {} is no file; name one: standard output has the result of the command", flags.trace_json);
  if (exists && !is_trace(flags.trace_json))
    fail(ErrorKind::invalid_argument, "--trace-json: {} exists and is no trace, so it is not replaced", flags.trace_json);
}

void write_trace(const TargetFlags& flags, const Json& trace) {
  if (flags.trace_json.empty()) return;
  check_trace_file(flags);  // again: what was written since may be there
  write_text_file(flags.trace_json, trace.dump(2) + "\n");
}

}  // namespace mobius::cli

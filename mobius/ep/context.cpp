// The thread's current build context.
#include "mobius/ep/context.hpp"

#include <utility>

#include "mobius/ep/registry.hpp"

namespace mobius {
namespace {
thread_local BuildContext::Snapshot current;
}

BuildContext::BuildContext(EpCapabilities capabilities, ir::DataType dtype)
    : BuildContext(std::make_shared<const State>(State{std::move(capabilities), dtype})) {}
BuildContext::BuildContext(Snapshot state) : outer_(std::exchange(current, std::move(state))) {}
BuildContext::~BuildContext() { current = std::move(outer_); }

BuildContext::Snapshot BuildContext::snapshot() { return current; }
BuildContext BuildContext::resume(Snapshot snapshot) { return BuildContext(std::move(snapshot)); }

const EpCapabilities& ep_capabilities() { return current ? current->capabilities : ep_registry().require("default"); }
ir::DataType get_build_dtype() { return current ? current->dtype : ir::DataType::float32; }

}  // namespace mobius

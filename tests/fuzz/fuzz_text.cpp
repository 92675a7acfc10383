// Any text as a model in ONNX's textual syntax: an Error or a model; printing and reading a model again changes nothing.
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "mobius/base/error.hpp"
#include "mobius/ir/model.hpp"

namespace {

std::optional<mobius::ir::Model> read(std::string_view text) {
  try {
    return mobius::ir::model_from_text(text);
  } catch (const mobius::Error& e) {
    if (e.kind() == mobius::ErrorKind::internal) std::abort();
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto model = read({reinterpret_cast<const char*>(data), size});
  if (!model) return 0;
  verify(*model);
  const std::string text = to_text(*model);
  const auto again = read(text);
  if (!again || to_text(*again) != text) std::abort();
  return 0;
}

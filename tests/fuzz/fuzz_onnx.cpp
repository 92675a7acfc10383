// Any bytes as an ONNX model: an Error or a model; a model survives being written and read again.
#include <cstdlib>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/formats/onnx_writer.hpp"

namespace {

std::optional<mobius::ir::Model> read(std::span<const std::byte> bytes) {
  try {
    return mobius::formats::parse_onnx(bytes);
  } catch (const mobius::Error& e) {
    if (e.kind() == mobius::ErrorKind::internal) std::abort();
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  mobius::logging::set_sink([](mobius::logging::Level, std::string_view) {});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto model = read(std::as_bytes(std::span(data, size)));
  if (!model) return 0;
  verify(*model);
  const std::string bytes = mobius::formats::serialize_onnx(*model, true);
  const auto again = read(std::as_bytes(std::span(bytes)));
  if (!again || to_text(*again) != to_text(*model)) std::abort();
  return 0;
}

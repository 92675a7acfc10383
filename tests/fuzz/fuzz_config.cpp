// Any text as a config.json: an Error or a value that survives being written and read, and that the config reader takes or refuses.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mobius/base/error.hpp"
#include "mobius/config/decoder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) try {
  using namespace mobius;
  const Json json = Json::parse({reinterpret_cast<const char*>(data), size});
  const std::string text = json.dump();
  if (Json::parse(text).dump() != text || Json::parse(json.dump(2)).dump() != text) std::abort();

  const ConfigReader reader(json);
  const DecoderConfig config = read_decoder(reader, {});
  if (config.hidden_size <= 0 || config.num_attention_heads <= 0 || config.head_dim <= 0) std::abort();
  return 0;
} catch (const mobius::Error& e) {
  if (e.kind() == mobius::ErrorKind::internal) std::abort();
  return 0;
}

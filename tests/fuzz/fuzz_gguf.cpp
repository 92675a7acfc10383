// Any bytes as a GGUF model: opened, its weights read under Hugging Face's names, its config and tokenizer rebuilt.
#include <unistd.h>

#include <cstdint>
#include <string>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/formats/gguf.hpp"
#include "mobius/package/gguf_files.hpp"
#include "mobius/weights/gguf_names.hpp"

namespace {

using namespace mobius;

template <class F>
void guarded(F f) {
  try {
    f();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) throw;  // a defect of ours
  }
}

void read_some(const ir::TensorPtr& tensor) {
  if (!tensor || tensor->byte_size() > (1 << 20)) return;
  tensor->bytes();
}

const fs::path& scratch_file() {
  static const fs::path path = (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) / ("fuzz_gguf_" + std::to_string(getpid()));
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  logging::set_sink([](logging::Level, std::string_view) {});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  write_text_file(scratch_file(), {reinterpret_cast<const char*>(data), size});
  guarded([] {
    const auto gguf = formats::GgufFile::open(scratch_file());
    for (const auto& t : gguf->tensors()) guarded([&] { read_some(gguf->tensor(t.name)); });
    guarded([&] {
      for (const auto& w : weights::hugging_face_weights(*gguf)) guarded([&] { read_some(weights::load(*gguf, w)); });
    });
    guarded([&] { package::files_from_gguf(*gguf); });
  });
  return 0;
}

// Runtime: finds the library, loads it, and keeps its function table.
#include "mobius/runtime/onnxruntime.hpp"

#include <array>

#include "mobius/base/error.hpp"
#include "mobius/base/file.hpp"
#include "mobius/runtime/handles.hpp"
#include "mobius/runtime/locate.hpp"

namespace mobius::runtime {
namespace {

constexpr std::array loader_names = {"libonnxruntime.so.1", "libonnxruntime.so", "libonnxruntime.dylib", "onnxruntime.dll"};

struct Library {
  std::shared_ptr<DynamicLibrary> library;
  fs::path path;
};

// Libraries that were used once stay loaded; see the comment of class Runtime.
void keep_loaded(const std::shared_ptr<DynamicLibrary>& library) {
  static auto* kept = new std::vector<std::shared_ptr<DynamicLibrary>>();
  kept->push_back(library);
}

Library load_given(const fs::path& given, std::string_view origin) {
  std::vector<fs::path> candidates = {given};
  std::error_code ignored;
  if (fs::is_directory(given, ignored)) {
    candidates = libraries_in(given);
    if (candidates.empty()) fail(ErrorKind::not_found, "{}: {} holds no ONNX Runtime library (libonnxruntime.so)", origin, given.string());
  }
  std::string why;
  auto library = DynamicLibrary::open(candidates.front().string(), &why);
  if (!library) fail(ErrorKind::not_found, "{}: cannot load ONNX Runtime from {}: {}", origin, candidates.front().string(), why);
  return {std::move(library), candidates.front()};
}

Library search() {
  std::string reasons;
  for (const fs::path& candidate : wheel_libraries(python_prefixes())) {
    std::string why;
    if (auto library = DynamicLibrary::open(candidate.string(), &why)) return {std::move(library), candidate};
    reasons += fmt::format("; {}: {}", candidate.string(), why);
  }
  for (const char* name : loader_names) {
    if (auto library = DynamicLibrary::open(name)) return {std::move(library), name};
  }
  fail(ErrorKind::not_found,
       "no ONNX Runtime found: not in a Python environment (VIRTUAL_ENV, CONDA_PREFIX, .venv, ~/.local, pyenv, /usr), not in the loader path{}; "
       "install it (pip install onnxruntime) or set MOBIUS_ONNXRUNTIME to its library",
       reasons);
}

Library find(const fs::path& path) {
  if (!path.empty()) return load_given(path, "given path");
  if (auto variable = environment("MOBIUS_ONNXRUNTIME"); variable && !variable->empty()) return load_given(*variable, "MOBIUS_ONNXRUNTIME");
  return search();
}

}  // namespace

void Checker::operator()(ort::Status* status) const {
  if (!status) return;
  const int code = api.GetErrorCode(status);
  const std::string message = api.GetErrorMessage(status);
  api.ReleaseStatus(status);
  switch (code) {
    case ort::code_invalid_argument: fail(ErrorKind::invalid_argument, "ONNX Runtime: {}", message);
    case ort::code_no_such_file: fail(ErrorKind::not_found, "ONNX Runtime: {}", message);
    case ort::code_invalid_protobuf:
    case ort::code_invalid_graph: fail(ErrorKind::corrupt_file, "ONNX Runtime: {}", message);
    case ort::code_not_implemented: fail(ErrorKind::unsupported, "ONNX Runtime: {}", message);
    default: fail(ErrorKind::internal, "ONNX Runtime: {}", message);
  }
}

std::shared_ptr<Runtime> Runtime::open(const fs::path& path) {
  auto [library, where] = find(path);
  // The table's entry point is data to the loader: a function pointer has to be made of it.
  auto get_base = reinterpret_cast<ort::GetApiBase*>(library->symbol("OrtGetApiBase"));
  if (!get_base) fail(ErrorKind::unsupported, "{} is not ONNX Runtime: it does not export OrtGetApiBase", where.string());
  keep_loaded(library);

  const ort::ApiBase* base = get_base();
  std::shared_ptr<Runtime> runtime(new Runtime());
  runtime->version_ = base->GetVersionString();
  runtime->path_ = where;
  const ort::Api* api = base->GetApi(ort::api_version);
  if (!api) fail(ErrorKind::unsupported, "{} is ONNX Runtime {}, expected {} or newer", where.string(), runtime->version_, ort::least_version);

  runtime->handles_ = std::make_unique<Handles>(*api);
  const Checker check{*api};
  Handles& handles = *runtime->handles_;
  check(api->CreateEnv(ort::log_fatal, "mobius", out(handles.environment)));
  check(api->DisableTelemetryEvents(handles.environment.get()));
  check(api->CreateCpuMemoryInfo(ort::device_allocator, ort::default_memory, out(handles.memory)));
  check(api->GetAllocatorWithDefaultOptions(&handles.allocator));
  return runtime;
}

Runtime::~Runtime() = default;

std::vector<std::string> Runtime::providers() const {
  const ort::Api& api = handles_->api;
  const Checker check{api};
  char** names = nullptr;
  int count = 0;
  check(api.GetAvailableProviders(&names, &count));
  std::vector<std::string> providers(names, names + count);
  check(api.ReleaseAvailableProviders(names, count));
  return providers;
}

}  // namespace mobius::runtime

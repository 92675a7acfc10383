// Session: a model loaded by ONNX Runtime, its ports, and one run of it.
#include <algorithm>
#include <cstring>

#include "mobius/base/error.hpp"
#include "mobius/runtime/handles.hpp"

namespace mobius::runtime {

using ir::DataType;

struct Session::Handle {
  explicit Handle(const ort::Api& table) : api(table), check{table}, session(owner(table.ReleaseSession)) {}

  const ort::Api& api;
  Checker check;
  Owned<ort::Session> session;
};

namespace {

std::vector<const char*> keys(const Settings& settings) {
  std::vector<const char*> list;
  for (const auto& [key, value] : settings) list.push_back(key.c_str());
  return list;
}

std::vector<const char*> values(const Settings& settings) {
  std::vector<const char*> list;
  for (const auto& [key, value] : settings) list.push_back(value.c_str());
  return list;
}

void append_provider(const ort::Api& api, ort::SessionOptions* made, const SessionOptions& options) {
  const Checker check{api};
  std::string name = options.provider;
  if (const std::string suffix = "ExecutionProvider"; name.ends_with(suffix)) name.erase(name.size() - suffix.size());
  if (name.empty() || name == "CPU") {
    if (!options.provider_options.empty())
      fail(ErrorKind::invalid_argument, "the CPU provider takes no options, found '{}'", options.provider_options[0].first);
    return;
  }
  const auto option_keys = keys(options.provider_options), option_values = values(options.provider_options);
  if (name == "CUDA") {  // has functions of its own; the general one does not know it in every version
    auto cuda = owner(api.ReleaseCUDAProviderOptions);
    check(api.CreateCUDAProviderOptions(out(cuda)));
    check(api.UpdateCUDAProviderOptions(cuda.get(), option_keys.data(), option_values.data(), option_keys.size()));
    check(api.SessionOptionsAppendExecutionProvider_CUDA_V2(made, cuda.get()));
    return;
  }
  check(api.SessionOptionsAppendExecutionProvider(made, name.c_str(), option_keys.data(), option_values.data(), option_keys.size()));
}

Owned<ort::SessionOptions> make_options(const ort::Api& api, const SessionOptions& options) {
  const Checker check{api};
  auto made = owner(api.ReleaseSessionOptions);
  check(api.CreateSessionOptions(out(made)));
  check(api.SetSessionGraphOptimizationLevel(made.get(), static_cast<int>(options.optimization)));
  check(api.SetIntraOpNumThreads(made.get(), options.threads));
  for (const auto& [key, value] : options.config_entries) check(api.AddSessionConfigEntry(made.get(), key.c_str(), value.c_str()));
  append_provider(api, made.get(), options);
  return made;
}

DataType data_type(int number) { return number >= 0 && number <= ir::last_data_type ? static_cast<DataType>(number) : DataType::undefined; }

struct TensorFacts {
  DataType dtype = DataType::undefined;
  ir::Dims dims;                     // -1 where not a number
  std::vector<const char*> symbols;  // "" where not a symbol; they live as long as the info
};

TensorFacts facts(const ort::Api& api, const ort::TensorInfo* info) {
  const Checker check{api};
  TensorFacts found;
  int number = 0;
  std::size_t rank = 0;
  check(api.GetTensorElementType(info, &number));
  check(api.GetDimensionsCount(info, &rank));
  found.dtype = data_type(number);
  found.dims.resize(rank);
  found.symbols.resize(rank);
  check(api.GetDimensions(info, found.dims.data(), rank));
  check(api.GetSymbolicDimensions(info, found.symbols.data(), rank));
  return found;
}

}  // namespace

void Session::read_ports() {
  const auto& [api, check, session] = *handle_;
  ort::Allocator* allocator = runtime_->handles_->allocator;

  auto read = [&](auto get_count, auto get_name, auto get_type) {
    std::size_t count = 0;
    check(get_count(session.get(), &count));
    std::vector<Port> ports(count);
    for (std::size_t i = 0; i < count; ++i) {
      char* name = nullptr;
      check(get_name(session.get(), i, allocator, &name));
      ports[i].name = name;
      check(api.AllocatorFree(allocator, name));

      auto type = owner(api.ReleaseTypeInfo);
      check(get_type(session.get(), i, out(type)));
      int kind = 0;
      check(api.GetOnnxTypeFromTypeInfo(type.get(), &kind));
      if (kind != ort::kind_tensor) continue;
      const ort::TensorInfo* info = nullptr;  // belongs to `type`
      check(api.CastTypeInfoToTensorInfo(type.get(), &info));
      const TensorFacts found = facts(api, info);
      ports[i].dtype = found.dtype;
      for (std::size_t d = 0; d < found.dims.size(); ++d) {
        if (found.dims[d] >= 0) {
          ports[i].shape.emplace_back(found.dims[d]);
        } else {
          ports[i].shape.push_back(*found.symbols[d] ? ir::Dim::parse(found.symbols[d]) : ir::Dim());
        }
      }
    }
    return ports;
  };
  inputs_ = read(api.SessionGetInputCount, api.SessionGetInputName, api.SessionGetInputTypeInfo);
  outputs_ = read(api.SessionGetOutputCount, api.SessionGetOutputName, api.SessionGetOutputTypeInfo);
}

Session::Session(std::shared_ptr<Runtime> runtime, const std::filesystem::path& model, const SessionOptions& options)
    : runtime_(std::move(runtime)), handle_(std::make_unique<Handle>(runtime_->handles_->api)) {
  const ort::Api& api = handle_->api;
  const auto made = make_options(api, options);
  try {
    handle_->check(api.CreateSession(runtime_->handles_->environment.get(), model.c_str(), made.get(), out(handle_->session)));
  } catch (const Error& error) {
    throw error.within(model.string());
  }
  read_ports();
}

Session::Session(std::shared_ptr<Runtime> runtime, std::span<const std::byte> model, const SessionOptions& options)
    : runtime_(std::move(runtime)), handle_(std::make_unique<Handle>(runtime_->handles_->api)) {
  const ort::Api& api = handle_->api;
  const auto made = make_options(api, options);
  handle_->check(api.CreateSessionFromArray(runtime_->handles_->environment.get(), model.data(), model.size(), made.get(), out(handle_->session)));
  read_ports();
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

namespace {

const Port* find_port(const std::vector<Port>& ports, std::string_view name) {
  auto it = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.name == name; });
  return it == ports.end() ? nullptr : &*it;
}

// The number of bytes these dims need, or an error that names the input.
std::uint64_t expected_bytes(const Port& port, const Tensor& tensor) {
  constexpr std::uint64_t most = 1ull << 48;
  std::uint64_t elements = 1;
  for (std::int64_t dim : tensor.dims) {
    if (dim < 0) fail(ErrorKind::invalid_argument, "input '{}' has a negative dimension {}", port.name, dim);
    const auto size = static_cast<std::uint64_t>(dim);
    if (size != 0 && elements > most / size) fail(ErrorKind::invalid_argument, "input '{}' has more elements than any memory holds", port.name);
    elements *= size;
  }
  return ir::byte_size(tensor.dtype, elements);
}

void check_input(const Port& port, const Tensor& tensor) {
  if (port.dtype == DataType::undefined || port.dtype == DataType::string) {
    fail(ErrorKind::unsupported, "input '{}' is not a tensor of numbers", port.name);
  }
  if (tensor.dtype != port.dtype) {
    fail(ErrorKind::invalid_argument, "input '{}' is {}, expected {}", port.name, ir::text_name(tensor.dtype), ir::text_name(port.dtype));
  }
  if (const std::uint64_t want = expected_bytes(port, tensor); tensor.bytes.size() != want) {
    fail(ErrorKind::invalid_argument, "input '{}' has {} bytes, expected {} for its shape", port.name, tensor.bytes.size(), want);
  }
}

Tensor read_value(const ort::Api& api, ort::Value* value, const std::string& name) {
  const Checker check{api};
  int has_value = 0, kind = 0;
  check(api.HasValue(value, &has_value));
  if (has_value) check(api.GetValueType(value, &kind));
  if (kind != ort::kind_tensor) fail(ErrorKind::unsupported, "output '{}' is not a tensor", name);

  auto info = owner(api.ReleaseTensorTypeAndShapeInfo);
  check(api.GetTensorTypeAndShape(value, out(info)));
  TensorFacts found = facts(api, info.get());
  Tensor tensor{found.dtype, std::move(found.dims), {}};
  if (ir::bit_width(tensor.dtype) == 0) fail(ErrorKind::unsupported, "output '{}' is not a tensor of numbers", name);
  tensor.bytes.resize(ir::byte_size(tensor.dtype, static_cast<std::uint64_t>(ir::element_count(tensor.dims))));
  void* data = nullptr;
  check(api.GetTensorMutableData(value, &data));
  if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), data, tensor.bytes.size());
  return tensor;
}

}  // namespace

std::map<std::string, Tensor> Session::run(const std::map<std::string, Tensor>& inputs, std::span<const std::string> wanted) const {
  const auto& [api, check, session] = *handle_;
  for (const Port& port : inputs_) {
    if (!inputs.contains(port.name)) fail(ErrorKind::invalid_argument, "input '{}' is missing", port.name);
  }

  std::vector<const char*> input_names;
  std::vector<Owned<ort::Value>> owned;
  std::vector<const ort::Value*> input_values;
  for (const auto& [name, tensor] : inputs) {
    const Port* port = find_port(inputs_, name);
    if (!port) fail(ErrorKind::invalid_argument, "the graph has no input '{}'", name);
    check_input(*port, tensor);
    auto value = owner(api.ReleaseValue);
    // ONNX Runtime only reads its inputs, but its signature wants a mutable pointer.
    auto* data = const_cast<std::byte*>(tensor.bytes.data());
    check(api.CreateTensorWithDataAsOrtValue(runtime_->handles_->memory.get(), data, tensor.bytes.size(), tensor.dims.data(), tensor.dims.size(),
                                             static_cast<int>(tensor.dtype), out(value)));
    input_names.push_back(name.c_str());
    input_values.push_back(value.get());
    owned.push_back(std::move(value));
  }

  std::vector<const char*> output_names;
  for (const std::string& name : wanted) {
    if (!find_port(outputs_, name)) fail(ErrorKind::invalid_argument, "the graph has no output '{}'", name);
    output_names.push_back(name.c_str());
  }
  if (wanted.empty()) {
    for (const Port& port : outputs_) {
      if (ir::bit_width(port.dtype) != 0) output_names.push_back(port.name.c_str());
    }
  }

  std::vector<ort::Value*> raw(output_names.size(), nullptr);
  ort::Status* status =
      api.Run(session.get(), nullptr, input_names.data(), input_values.data(), input_values.size(), output_names.data(), output_names.size(), raw.data());
  std::vector<Owned<ort::Value>> results;
  for (ort::Value* value : raw) {
    auto result = owner(api.ReleaseValue);
    result.reset(value);
    results.push_back(std::move(result));
  }
  check(status);

  std::map<std::string, Tensor> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) outputs.emplace(output_names[i], read_value(api, results[i].get(), output_names[i]));
  return outputs;
}

}  // namespace mobius::runtime

// ONNX Runtime, loaded when it is asked for: the program is built and runs without it.
//
//   auto runtime = Runtime::open();                                  // or Runtime::open("/opt/ort/libonnxruntime.so.1.32.0")
//   Session session(runtime, "package/model.onnx", {.threads = 2});
//   for (const Port& port : session.inputs()) fmt::print("{} {}\n", port.name, to_string(port.shape));
//   auto outputs = session.run({{"input_ids", {DataType::int64, {1, 5}, bytes}}, ...});
//   const Tensor& logits = outputs.at("logits");
//
// What ONNX Runtime reports becomes a mobius::Error with its message. Nothing is printed.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mobius/ir/data_type.hpp"
#include "mobius/ir/shape.hpp"
#include "mobius/ir/tensor_data.hpp"

namespace mobius::runtime {

// A loaded library. Shared by its sessions; the library itself stays loaded until the process ends, because ONNX Runtime
// leaves threads and thread-local objects behind.
class Runtime {
 public:
  // `path` is a library file, or a folder that holds one. Without it, in this order: the environment variable
  // MOBIUS_ONNXRUNTIME, an installed Python wheel (locate.hpp says where), the system's loader path.
  // Errors: not_found (with the places that were tried), unsupported (not ONNX Runtime, or older than 1.17).
  static std::shared_ptr<Runtime> open(const std::filesystem::path& path = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const std::string& version() const { return version_; }  // "1.32.0"
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> providers() const;  // "CPUExecutionProvider", ...

 private:
  friend class Session;
  struct Handles;
  Runtime() = default;
  std::unique_ptr<Handles> handles_;
  std::string version_;
  std::filesystem::path path_;
};

using Settings = std::vector<std::pair<std::string, std::string>>;

enum class GraphOptimization { none = 0, basic = 1, extended = 2, all = 99 };

struct SessionOptions {
  // "CPU", "CUDA", "WebGPU", "OpenVINO", "QNN", ..., with or without "ExecutionProvider". What it can't run goes to the CPU.
  std::string provider = "CPU";
  Settings provider_options = {};  // the provider's own keys, for instance {"device_id", "0"}
  GraphOptimization optimization = GraphOptimization::all;
  int threads = 0;               // inside one operator; 0 = all cores
  Settings config_entries = {};  // for instance {"session.disable_cpu_ep_fallback", "1"}
};

// An input or output of a graph.
struct Port {
  std::string name;
  ir::DataType dtype = ir::DataType::undefined;  // undefined: not a tensor
  ir::Shape shape;                               // symbols keep their names
};

// Row-major, little-endian, as ir::TensorData lays it out.
struct Tensor {
  ir::DataType dtype = ir::DataType::undefined;
  ir::Dims dims;
  std::vector<std::byte> bytes;
};

// A loaded model. run() may be called from several threads at once.
class Session {
 public:
  // Errors: not_found, corrupt_file (not an ONNX model, or an invalid graph), unsupported (an op or type without a kernel), ...
  Session(std::shared_ptr<Runtime> runtime, const std::filesystem::path& model, const SessionOptions& options = {});
  // The bytes of a .onnx file without external data.
  Session(std::shared_ptr<Runtime> runtime, std::span<const std::byte> model, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }

  // Runs the graph once. All inputs are needed; `wanted` names outputs, empty = all that are tensors.
  // Errors: invalid_argument for an unknown or missing name, another dtype or a wrong number of bytes.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& inputs, std::span<const std::string> wanted = {}) const;

 private:
  struct Handle;
  void read_ports();
  std::shared_ptr<Runtime> runtime_;
  std::unique_ptr<Handle> handle_;
  std::vector<Port> inputs_, outputs_;
};

}  // namespace mobius::runtime

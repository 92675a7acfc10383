// Builds: from a checkpoint, from a module written in Python, and one graph at a time.
#include "mobius/package/build.hpp"

#include "mobius/config/reader.hpp"
#include "mobius/ep/context.hpp"
#include "mobius/hub/resolve.hpp"
#include "mobius/models/family.hpp"
#include "mobius/package/build_from_module.hpp"
#include "mobius/weights/checkpoint.hpp"
#include "python/context.hpp"
#include "python/nn.hpp"
#include "python/package.hpp"

namespace mobius::python {
namespace {

Padding padding_of(const std::string& name) {
  if (name == "any") return Padding::any;
  if (name == "right") return Padding::right;
  fail(ErrorKind::invalid_argument, "padding is '{}', expected right or any", name);
}

template <class T>
T option(const py::dict& options, const char* name) {
  return options[name].cast<T>();
}

std::pair<std::shared_ptr<Package>, Components> build_model(const std::string& model, const py::dict& options) {
  BuildOptions o{.execution_provider = option<std::string>(options, "execution_provider"),
                 .dtype = option<std::optional<ir::DataType>>(options, "dtype"),
                 .task = option<std::string>(options, "task"),
                 .load_weights = option<bool>(options, "load_weights"),
                 .trace_optimization = option<bool>(options, "trace_optimization"),
                 .opset = option<std::optional<std::int64_t>>(options, "opset"),
                 .padding = padding_of(option<std::string>(options, "padding")),
                 .as_type = option<std::string>(options, "as_type"),
                 .ignore_extra = option<std::vector<std::string>>(options, "ignore_extra"),
                 .revision = option<std::string>(options, "revision")};
  const py::gil_scoped_release unlocked;
  o.on_report = [](const Component&, const OptimizeReport&) {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  };
  return split(build(model, o));
}

ArchitectureConfig config_of(const std::string& json, ir::DataType dtype) {
  const ConfigReader reader(Json::parse(json), "ArchitectureConfig");
  auto config = read_decoder(reader, {});
  config.dtype = dtype;
  config.qkv_bias = reader.boolean("attn_qkv_bias", false);
  config.o_bias = reader.boolean("attn_o_bias", false);
  config.mlp_bias = reader.boolean("mlp_bias", false);
  const auto window = reader.optional_size("sliding_window");
  if (reader.has("layer_types")) set_window_by_layer(config, reader, window, std::vector<bool>(static_cast<std::size_t>(config.num_hidden_layers)));
  else set_window(config, window);
  return config;
}

// The Python function as the library calls it: with Python's lock, its tensors valid for the time of the call.
CausalLMForward forward_of(const std::shared_ptr<py::object>& function) {
  return [function](Tensor input_ids, Decode& at) {
    const py::gil_scoped_acquire lock;
    const GraphInWork work(input_ids.builder());
    return tensor_of((*function)(work.op(), work.wrap(input_ids), work.wrap(at)));
  };
}

std::pair<std::shared_ptr<Package>, Components> build_module(py::object function, const ArchitectureConfig& config, const py::dict& options) {
  ModuleOptions o{.execution_provider = option<std::string>(options, "execution_provider"),
                  .ignore_extra = option<std::vector<std::string>>(options, "ignore_extra"),
                  .task = option<std::string>(options, "task"),
                  .opset = option<std::optional<std::int64_t>>(options, "opset"),
                  .padding = padding_of(option<std::string>(options, "padding")),
                  .trace_optimization = option<bool>(options, "trace_optimization")};
  if (const auto weights = option<std::optional<std::string>>(options, "weights")) o.weights = *weights;
  const std::shared_ptr<py::object> held(new py::object(std::move(function)), WithLock());
  const py::gil_scoped_release unlocked;
  return split(build_from_module(forward_of(held), config, o));
}

// One graph, as its components make it, for the execution provider of the current build context; not optimised.
std::pair<std::shared_ptr<Package>, Components> task_build(py::object function, const ArchitectureConfig& config) {
  const auto context = BuildContext::resume(current_context());
  const std::shared_ptr<py::object> held(new py::object(std::move(function)), WithLock());
  ModelPackage package;
  auto& model = package.components().emplace_back(causal_lm(get_build_dtype(), forward_of(held))).model;
  for (const auto* n : model.graph->nodes())
    if (!n->op.domain.empty()) model.opset_imports.try_emplace(std::string(n->op.domain), 1);
  package.config = config_json(config);
  return split(std::move(package));
}

}  // namespace

void bind_build(py::module_& m) {
  m.def("build", build_model);
  m.def("build_from_module", build_module);
  m.def("task_build", task_build);
  m.def("resolve", [](const std::string& model, const std::string& revision) { return hub::resolve(model, revision).path.string(); });
  m.def("checkpoint", [](const std::string& path) {
    const auto checkpoint = weights::Checkpoint::open(path);
    py::dict out;
    for (const auto& name : checkpoint.names()) out[py::str(name)] = to_python(checkpoint.find(name));
    return out;
  });
  m.def("families", [] {
    std::vector<std::tuple<std::string, std::string, std::string>> out;
    for (const auto& f : families())
      for (const auto type : f.types) out.emplace_back(std::string(type), f.name, std::string(f.task));
    return out;
  });

  py::class_<ArchitectureConfig>(m, "Config")
      .def(py::init(&config_of))
      .def_readonly("dtype", &ArchitectureConfig::dtype)
      .def_readonly("head_dim", &ArchitectureConfig::head_dim)
      .def_readonly("num_key_value_heads", &ArchitectureConfig::num_key_value_heads)
      .def("window", &ArchitectureConfig::window);
}

}  // namespace mobius::python

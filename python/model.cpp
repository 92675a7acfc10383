// Models: bytes, files, text and parts in and out; looking at them; optimising them.
#include <algorithm>

#include "mobius/formats/onnx_reader.hpp"
#include "mobius/formats/onnx_serializer.hpp"
#include "mobius/formats/onnx_writer.hpp"
#include "mobius/ir/unbound.hpp"
#include "mobius/passes/pipeline.hpp"
#include "mobius/weights/bind.hpp"
#include "python/bindings.hpp"

namespace mobius::python {
namespace {

ModelPtr wrap(ir::Model model) {
  auto out = std::make_shared<Model>();
  if (const auto role = model.metadata.find("mobius.role"); role != model.metadata.end()) out->role = role->second;
  out->model = std::move(model);
  return out;
}

std::span<const std::byte> bytes_of(const py::bytes& bytes) {
  const auto view = static_cast<std::string_view>(bytes);
  return {reinterpret_cast<const std::byte*>(view.data()), view.size()};
}

// The graph's own values and those of its subgraphs.
void for_each_graph(ir::Graph& graph, const std::function<void(ir::Graph&)>& visit) {
  visit(graph);
  for (const auto* n : graph.nodes())
    for (auto* inner : n->subgraphs()) for_each_graph(*inner, visit);
}

// The message, with every initializer of `least` bytes or more as external data "mobius" whose offset is its place in the list.
std::pair<std::string, std::vector<ir::TensorPtr>> without_weights(ir::Model& model, std::uint64_t least) {
  std::vector<ir::TensorPtr> weights;
  std::map<const ir::Value*, formats::onnx::ExternalPlace> places;
  for_each_graph(*model.graph, [&](ir::Graph& graph) {
    for (const auto* v : graph.initializers()) {
      const auto& data = v->data();
      if (data->dtype() == ir::DataType::string || (data->byte_size() < least && !ir::unbound_leaf(*data))) continue;
      places[v] = {"mobius", weights.size(), data->byte_size()};
      weights.push_back(data);
    }
  });
  const auto place = [&](const ir::Value& v) {
    const auto it = places.find(&v);
    return it == places.end() ? nullptr : &it->second;
  };
  return {formats::onnx::serialize(model, {.external = place}), std::move(weights)};
}

// The model of a message whose external initializers are given by their names' order in `weights`: what without_weights takes apart.
ModelPtr from_parts(std::span<const std::byte> message, const std::vector<ir::TensorPtr>& weights) {
  auto model = formats::parse_onnx(message, {}, formats::ExternalData::skip);
  for_each_graph(*model.graph, [&](ir::Graph& graph) {
    for (auto* v : graph.initializers()) {
      const auto* placeholder = dynamic_cast<const ir::Placeholder*>(v->data().get());
      if (!placeholder || !placeholder->name().starts_with("mobius@")) continue;
      const auto at = std::stoull(placeholder->name().substr(7));
      if (at >= weights.size()) fail(ErrorKind::invalid_argument, "initializer {} has number {}, but {} weights are given", v->name, at, weights.size());
      const auto& data = weights[at];
      if (data->dtype() != placeholder->dtype() || data->dims() != placeholder->dims())
        fail(ErrorKind::invalid_argument, "initializer {} has another type or shape than its array", v->name);
      v->set_data(data);
    }
  });
  return wrap(std::move(model));
}

ModelPtr clone(Model& m) {
  const InUse mine(m);
  const auto [message, weights] = without_weights(m.model, 1024);
  auto copy = from_parts(std::as_bytes(std::span(message)), weights);
  copy->role = m.role;
  return copy;
}

py::dict op_counts(const ir::Model& model) {
  std::map<std::string, std::size_t> counts;
  for (const auto* n : model.graph->nodes()) ++counts[ir::to_string(n->op)];
  py::dict out;
  for (const auto& [name, count] : counts) out[text(name)] = count;
  return out;
}

std::string optimize(Model& m, OptimizeOptions options) {
  const py::gil_scoped_release unlocked;
  const InUse mine(m);
  const auto report = optimize_model(m.model, options);
  m.role = options.model_role;
  return to_json(report).dump();
}

// As `mobius optimize` does: a small model holds its weights itself.
void write(Model& m, const std::string& path, std::optional<bool> external, bool safetensors, std::uint64_t max_shard_size, py::object progress) {
  const fs::path file = path;
  formats::WriteOptions options{.max_shard_size = max_shard_size, .progress = progress_of(std::move(progress))};
  if (safetensors) options.external = formats::WriteOptions::External::safetensors;
  const py::gil_scoped_release unlocked;
  const InUse mine(m);
  std::uint64_t size = 0;
  for (const auto* v : m.model.graph->initializers()) size += v->data()->byte_size();
  if (!external.value_or(size > (64 << 20))) options.inline_limit = UINT64_MAX;
  formats::write_onnx(m.model, file.has_parent_path() ? file.parent_path() : fs::path("."), file.filename().string(), options);
}

// The weights that have to be found in a checkpoint, by the names that they may have there.
py::list parameters(Model& m) {
  const InUse mine(m);
  py::list out;
  for (const auto* p : weights::placeholders(m.model)) {
    if (p->is_bound()) continue;
    py::list names;
    for (const auto& name : p->names()) names.append(text(name));
    out.append(py::make_tuple(names, p->dims(), p->dtype()));
  }
  return out;
}

// Whether a weight of this name is there: of the graph, or of the checkpoint that it was made from.
bool has_value(Model& m, const std::string& name) {
  const InUse mine(m);
  const auto* value = m.model.graph->find_value(name);
  if (value && value->is_initializer() && !ir::unbound_leaf(*value->data())) return true;
  return std::ranges::any_of(weights::placeholders(m.model),
                             [&](const auto* p) { return p->is_bound() && std::ranges::find(p->names(), name) != p->names().end(); });
}

// Returns how many were bound. A name that no parameter has is the caller's business.
std::size_t bind(Model& m, const py::dict& arrays) {
  const InUse mine(m);
  const auto places = weights::placeholders(m.model);
  std::size_t bound = 0;
  for (const auto* p : places)
    for (const auto& name : p->names()) {
      const py::str key(name);
      if (!arrays.contains(key)) continue;
      p->bind(tensor_from_python(arrays[key]));
      ++bound;
      break;
    }
  if (std::ranges::all_of(places, [](const auto* p) { return p->is_bound(); })) m.model.metadata.erase("mobius.weights");
  return bound;
}

// A function of a model, called while nobody else uses it.
template <class F>
auto guarded(F function) {
  return [function](Model& model) {
    const InUse mine(model);
    return function(model.model);
  };
}

}  // namespace

void bind_model(py::module_& m) {
  py::class_<Model, ModelPtr>(m, "Model")
      .def_static("parse", [](const py::bytes& data, const std::string& folder) { return wrap(formats::parse_onnx(bytes_of(data), folder)); })
      .def_static("read",
                  [](const std::string& path) {
                    const py::gil_scoped_release unlocked;
                    return wrap(formats::read_onnx(path));
                  })
      .def_static("from_text", [](const std::string& text) { return wrap(ir::model_from_text(text)); })
      .def_static("from_parts",
                  [](const py::bytes& message, const py::list& weights) {
                    std::vector<ir::TensorPtr> data;
                    for (const auto& w : weights) data.push_back(tensor_from_python(w));
                    return from_parts(bytes_of(message), data);
                  })
      .def("to_parts",
           [](Model& model, std::uint64_t least) {
             const InUse mine(model);
             const auto [message, weights] = without_weights(model.model, least);
             py::list out;
             for (const auto& w : weights) out.append(to_python(w));
             return py::make_tuple(py::bytes(message), out);
           })
      .def("clone", clone)
      .def("to_bytes",
           [](Model& model) {
             std::string bytes;
             {
               const py::gil_scoped_release unlocked;
               const InUse mine(model);
               bytes = formats::serialize_onnx(model.model);
             }
             return py::bytes(bytes);
           })
      .def("write", write)
      .def("text",
           [](Model& model, std::uint64_t max_elements) {
             const InUse mine(model);
             return text(ir::to_text(model.model, {.max_elements = max_elements}));
           })
      .def("verify", guarded([](ir::Model& model) {
             py::list out;
             for (const auto& finding : ir::verify(model)) out.append(text(finding));
             return out;
           }))
      .def("graph", guarded([](ir::Model& model) { return graph_to_python(*model.graph); }))
      .def("op_counts", guarded([](ir::Model& model) { return op_counts(model); }))
      .def("functions",
           [](Model& model) {
             const InUse mine(model);
             py::list out;
             for (const auto& f : model.model.functions) out.append(py::make_tuple(text(f.domain), text(f.name)));
             return out;
           })
      .def("parameters", parameters)
      .def("has_value", has_value)
      .def("bind", bind)
      .def("optimize",
           [](Model& model, const std::string& ep, std::optional<ir::DataType> dtype, const std::string& role, bool trace, const std::string& padding,
              std::optional<std::int64_t> opset, std::vector<std::string> skip) {
             return optimize(model, {.ep = ep,
                                     .dtype = dtype,
                                     .model_role = role,
                                     .padding = padding == "any" ? Padding::any : Padding::right,
                                     .opset = opset,
                                     .trace = trace,
                                     .skip = std::move(skip)});
           })
      .def_readwrite("role", &Model::role)
      .def_property("metadata", guarded([](ir::Model& model) {
                      py::dict out;
                      for (const auto& [key, value] : model.metadata) out[text(key)] = text(value);
                      return out;
                    }),
                    [](Model& model, const std::map<std::string, std::string>& entries) {
                      const InUse mine(model);
                      model.model.metadata = ir::Metadata(entries.begin(), entries.end());
                    })
      .def_property_readonly("opset_imports", guarded([](ir::Model& model) {
                               py::dict out;
                               for (const auto& [domain, version] : model.opset_imports) out[text(domain)] = version;
                               return out;
                             }))
      .def_property_readonly("ir_version", guarded([](ir::Model& model) { return model.ir_version; }))
      .def_property_readonly("producer_name", guarded([](ir::Model& model) { return text(model.producer_name); }))
      .def_property_readonly("doc_string", guarded([](ir::Model& model) { return text(model.doc); }));
}

}  // namespace mobius::python

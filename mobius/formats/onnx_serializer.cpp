// ir::Model to the bytes of a ModelProto, fields in the order of onnx.proto.
#include "mobius/formats/onnx_serializer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "mobius/base/error.hpp"
#include "mobius/formats/onnx_fields.hpp"

namespace mobius::formats::onnx {

using protozero::pbf_writer;

namespace {

constexpr std::uint64_t max_message = 0x7FFFFFFF;  // protobuf's own limit

// Called for every tensor that a message contains: initializers with their value, and attributes (value == nullptr).
using EachTensor = std::function<void(const ir::TensorData& tensor, const ir::Value* value, std::string_view name)>;

void for_each_tensor(const ir::Graph& graph, const EachTensor& each) {
  for (const ir::Value* v : graph.initializers()) each(*v->data(), v, v->name);
  for (const ir::Node* node : graph.nodes()) {
    for (const auto& [name, attribute] : node->attributes) {
      const std::string_view owner = node->name.empty() && node->output() ? node->output()->name : node->name;
      if (const auto* tensor = std::get_if<ir::TensorPtr>(&attribute)) each(**tensor, nullptr, owner);
      if (const auto* tensors = std::get_if<std::vector<ir::TensorPtr>>(&attribute))
        for (const auto& t : *tensors) each(*t, nullptr, owner);
    }
    for (const ir::Graph* g : node->subgraphs()) for_each_tensor(*g, each);
  }
}

std::string size_text(std::uint64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

// Stops before gigabytes are put together in vain.
void check_size(const ir::Model& model, const SerializeOptions& options, std::uint64_t known_size) {
  std::vector<std::pair<std::uint64_t, std::string>> tensors;
  std::uint64_t total = 0;
  const EachTensor add = [&](const ir::TensorData& tensor, const ir::Value* value, std::string_view name) {
    if (value && options.external && options.external(*value)) return;
    total += tensor.byte_size();
    tensors.emplace_back(tensor.byte_size(), name);
  };
  for_each_tensor(*model.graph, add);
  for (const ir::Function& f : model.functions) for_each_tensor(*f.body, add);
  if (std::max(total, known_size) <= max_message) return;
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string largest;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, tensors.size()); ++i)
    largest += fmt::format("{}{} ({})", i > 0 ? ", " : "", tensors[i].second, size_text(tensors[i].first));
  fail(ErrorKind::invalid_argument, "the model has {} inside its .onnx file, which can hold {}; the largest tensors there: {}",
       size_text(std::max(total, known_size)), size_text(max_message), largest);
}

class Serializer {
 public:
  explicit Serializer(const SerializeOptions& options) : options_(options) {}

  void model(pbf_writer& out, const ir::Model& model) {
    out.add_int64(model::ir_version, model.ir_version);
    optional_string(out, model::producer_name, model.producer_name);
    optional_string(out, model::producer_version, model.producer_version);
    optional_string(out, model::domain, model.domain);
    if (model.model_version != 0) out.add_int64(model::model_version, model.model_version);
    optional_string(out, model::doc_string, model.doc);
    {
      pbf_writer child(out, model::graph);
      graph(child, *model.graph);
    }
    opsets(out, model::opset_import, model.opset_imports);
    metadata(out, model::metadata_props, model.metadata);
    for (const ir::Function& f : model.functions) {
      pbf_writer child(out, model::functions);
      function(child, f);
    }
  }

 private:
  static void optional_string(pbf_writer& out, std::uint32_t field, const std::string& text) {
    if (!text.empty()) out.add_string(field, text);
  }

  static void add_string(pbf_writer& out, std::uint32_t field, std::string_view text) { out.add_string(field, text.data(), text.size()); }

  static void metadata(pbf_writer& out, std::uint32_t field, const ir::Metadata& entries) {
    for (const auto& [key, value] : entries) entry(out, field, key, value);
  }

  static void entry(pbf_writer& out, std::uint32_t field, std::string_view key, std::string_view value) {
    pbf_writer child(out, field);
    add_string(child, entry::key, key);
    add_string(child, entry::value, value);
  }

  static void opsets(pbf_writer& out, std::uint32_t field, const std::map<std::string, std::int64_t, std::less<>>& imports) {
    for (const auto& [domain, version] : imports) {
      pbf_writer child(out, field);
      child.add_string(opset::domain, domain);
      child.add_int64(opset::version, version);
    }
  }

  // ── graphs and nodes ───────────────────────────────────────────────────────────────────────────────────────────────────

  void graph(pbf_writer& out, const ir::Graph& graph) {
    for (const ir::Node* n : graph.nodes()) node(out, graph::node, *n);
    out.add_string(graph::name, graph.name);
    for (const ir::Value* v : graph.initializers()) {
      pbf_writer child(out, graph::initializer);
      const ExternalPlace* place = options_.external ? options_.external(*v) : nullptr;
      // A default value's documentation is that of the input.
      tensor(child, *v->data(), v->name, place, v->is_graph_input() ? nullptr : v);
    }
    optional_string(out, graph::doc_string, graph.doc);
    for (const ir::Value* v : graph.inputs()) value_info(out, graph::input, *v);
    for (const ir::Value* v : graph.outputs()) value_info(out, graph::output, *v);
    intermediate_values(out, graph::value_info, graph);
    metadata(out, graph::metadata_props, graph.metadata);
  }

  // Of values between nodes: all when asked for, else those that carry something to keep.
  void intermediate_values(pbf_writer& out, std::uint32_t field, const ir::Graph& graph) {
    for (const ir::Node* n : graph.nodes())
      for (const ir::Value* v : n->outputs()) {
        if (!v || v->is_graph_output() || !v->type.is_known()) continue;
        if (options_.value_info || !v->metadata.empty() || !v->doc.empty()) value_info(out, field, *v);
      }
  }

  static void value_info(pbf_writer& out, std::uint32_t field, const ir::Value& value) {
    pbf_writer child(out, field);
    child.add_string(value_info::name, value.name);
    if (value.type.is_known()) type(child, value_info::type, value.type);
    optional_string(child, value_info::doc_string, value.doc);
    metadata(child, value_info::metadata_props, value.metadata);
  }

  void node(pbf_writer& out, std::uint32_t field, const ir::Node& node) {
    pbf_writer child(out, field);
    for (const ir::Value* v : node.inputs()) add_string(child, node::input, v ? std::string_view(v->name) : std::string_view());
    for (const ir::Value* v : node.outputs()) add_string(child, node::output, v ? std::string_view(v->name) : std::string_view());
    optional_string(child, node::name, node.name);
    add_string(child, node::op_type, node.op.type);
    for (const auto& [name, value] : node.attributes) attribute(child, node::attribute, name, value);
    optional_string(child, node::doc_string, node.doc);
    if (!node.op.domain.empty()) add_string(child, node::domain, node.op.domain);
    optional_string(child, node::overload, node.overload);
    metadata(child, node::metadata_props, node.metadata);
  }

  void constant_node(pbf_writer& out, std::uint32_t field, const ir::Value& value) {
    pbf_writer child(out, field);
    child.add_string(node::output, value.name);
    child.add_string(node::op_type, "Constant");
    attribute(child, node::attribute, "value", value.data());
  }

  void function(pbf_writer& out, const ir::Function& f) {
    const ir::Graph& body = *f.body;
    out.add_string(function::name, f.name);
    for (const ir::Value* v : body.inputs()) out.add_string(function::input, v->name);
    for (const ir::Value* v : body.outputs()) out.add_string(function::output, v->name);
    for (const std::string& name : f.attributes) out.add_string(function::attribute, name);
    for (const ir::Value* v : body.initializers()) constant_node(out, function::node, *v);
    for (const ir::Node* n : body.nodes()) node(out, function::node, *n);
    optional_string(out, function::doc_string, f.doc);
    opsets(out, function::opset_import, f.opset_imports);
    out.add_string(function::domain, f.domain);
    for (const auto& [name, value] : f.attribute_defaults) attribute(out, function::attribute_proto, name, value);
    for (const auto* list : {&body.inputs(), &body.outputs()})
      for (const ir::Value* v : *list)
        if (v->type.is_known()) value_info(out, function::value_info, *v);
    intermediate_values(out, function::value_info, body);
    optional_string(out, function::overload, f.overload);
    metadata(out, function::metadata_props, f.metadata);
  }

  static void add_empty(pbf_writer& out, std::uint32_t field) { out.add_message(field, "", 0); }

  // ── types ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

  static void type(pbf_writer& out, std::uint32_t field, const ir::Type& t) {
    pbf_writer child(out, field);
    using Kind = ir::Type::Kind;
    if (t.kind == Kind::tensor || t.kind == Kind::sparse_tensor) {
      pbf_writer tensor(child, t.kind == Kind::tensor ? type::tensor_type : type::sparse_tensor_type);
      tensor.add_int32(type::elem_type, static_cast<std::int32_t>(t.dtype));
      if (t.shape) shape(tensor, *t.shape);
      return;
    }
    const bool is_map = t.kind == Kind::map;
    pbf_writer container(child, is_map ? type::map_type : t.kind == Kind::sequence ? type::sequence_type : type::optional_type);
    if (is_map) container.add_int32(type::key_type, static_cast<std::int32_t>(t.dtype));
    type(container, is_map ? +type::value_type : +type::elem_type, t.element ? *t.element : ir::Type());
  }

  // protozero leaves out messages without content, but an empty shape is a scalar's and an empty dimension an unknown one.
  static void shape(pbf_writer& out, const ir::Shape& dims) {
    if (dims.empty()) return add_empty(out, type::shape);
    pbf_writer child(out, type::shape);
    for (const ir::Dim& d : dims) {
      if (d.is_unknown()) {
        add_empty(child, shape::dim);
        continue;
      }
      pbf_writer dim(child, shape::dim);
      if (d.is_static()) dim.add_int64(shape::dim_value, d.value());
      else if (d.is_symbolic()) dim.add_string(shape::dim_param, d.to_string());
    }
  }

  // ── attributes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  void attribute(pbf_writer& out, std::uint32_t field, const std::string& name, const ir::Attribute& value) {
    pbf_writer child(out, field);
    child.add_string(attribute::name, name);
    const int type = std::visit([&](const auto& v) { return put(child, v); }, value);
    if (type != attribute::type_undefined) child.add_int32(attribute::type, type);
  }

  // Each writes the value and gives its AttributeType.
  int put(pbf_writer& out, std::int64_t v) { return out.add_int64(attribute::i, v), attribute::type_int; }
  int put(pbf_writer& out, float v) { return out.add_float(attribute::f, v), attribute::type_float; }
  int put(pbf_writer& out, const std::string& v) { return out.add_bytes(attribute::s, v), attribute::type_string; }
  int put(pbf_writer& out, const ir::TensorPtr& v) { return tensor_field(out, attribute::t, *v), attribute::type_tensor; }
  int put(pbf_writer& out, const ir::GraphPtr& v) { return graph_field(out, attribute::g, *v), attribute::type_graph; }
  int put(pbf_writer& out, const ir::Type& v) { return type(out, attribute::tp, v), attribute::type_type_proto; }
  int put(pbf_writer& out, const std::vector<std::int64_t>& list) {
    for (const std::int64_t v : list) out.add_int64(attribute::ints, v);
    return attribute::type_ints;
  }
  int put(pbf_writer& out, const std::vector<float>& list) {
    for (const float v : list) out.add_float(attribute::floats, v);
    return attribute::type_floats;
  }
  int put(pbf_writer& out, const std::vector<std::string>& list) {
    for (const std::string& v : list) out.add_bytes(attribute::strings, v);
    return attribute::type_strings;
  }
  int put(pbf_writer& out, const std::vector<ir::TensorPtr>& list) {
    for (const ir::TensorPtr& v : list) tensor_field(out, attribute::tensors, *v);
    return attribute::type_tensors;
  }
  int put(pbf_writer& out, const std::vector<ir::GraphPtr>& list) {
    for (const ir::GraphPtr& v : list) graph_field(out, attribute::graphs, *v);
    return attribute::type_graphs;
  }
  int put(pbf_writer& out, const std::vector<ir::Type>& list) {
    for (const ir::Type& v : list) type(out, attribute::type_protos, v);
    return attribute::type_type_protos;
  }
  int put(pbf_writer& out, const ir::AttributeReference& v) { return out.add_string(attribute::ref_attr_name, v.name), v.onnx_type; }

  void graph_field(pbf_writer& out, std::uint32_t field, const ir::Graph& g) {
    pbf_writer child(out, field);
    graph(child, g);
  }

  void tensor_field(pbf_writer& out, std::uint32_t field, const ir::TensorData& data) {
    pbf_writer child(out, field);
    tensor(child, data, "", nullptr, nullptr);
  }

  // ── tensors ────────────────────────────────────────────────────────────────────────────────────────────────────────────

  void tensor(pbf_writer& out, const ir::TensorData& data, const std::string& name, const ExternalPlace* place, const ir::Value* described) {
    for (const std::int64_t d : data.dims()) out.add_int64(tensor::dims, d);
    out.add_int32(tensor::data_type, static_cast<std::int32_t>(data.dtype()));
    if (const auto* strings = ir::string_values(data); strings && !place)
      for (const std::string& s : *strings) out.add_bytes(tensor::string_data, s);
    optional_string(out, tensor::name, name);
    if (!place && data.dtype() != ir::DataType::string) raw_data(out, data, name);
    if (described) optional_string(out, tensor::doc_string, described->doc);
    if (place) {
      entry(out, tensor::external_data, "location", place->location);
      entry(out, tensor::external_data, "offset", fmt::to_string(place->offset));
      entry(out, tensor::external_data, "length", fmt::to_string(place->length));
      out.add_int32(tensor::data_location, 1);
    }
    if (described) metadata(out, tensor::metadata_props, described->metadata);
  }

  void raw_data(pbf_writer& out, const ir::TensorData& data, const std::string& name) {
    const auto add = [&](std::span<const std::byte> bytes) { out.add_bytes(tensor::raw_data, reinterpret_cast<const char*>(bytes.data()), bytes.size()); };
    if (!options_.read_values) return add(std::vector<std::byte>(static_cast<std::size_t>(data.byte_size())));
    if (const auto bytes = data.in_memory(); bytes.size() == data.byte_size()) return add(bytes);
    try {
      add(data.bytes());
    } catch (const Error& e) {
      throw name.empty() ? e : e.within(name);
    }
  }

  const SerializeOptions& options_;
};

}  // namespace

std::string serialize(const ir::Model& model, const SerializeOptions& options) {
  check_size(model, options, 0);
  std::string out;
  pbf_writer writer(out);
  Serializer(options).model(writer, model);
  if (out.size() > max_message) check_size(model, options, out.size());
  return out;
}

}  // namespace mobius::formats::onnx

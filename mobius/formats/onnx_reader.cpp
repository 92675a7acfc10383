// ModelProto to ir::Model: graphs, nodes, attributes, types, functions.
#include "mobius/formats/onnx_reader.hpp"

#include <array>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <utility>
#include <vector>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/formats/onnx_fields.hpp"
#include "mobius/formats/onnx_tensor_reader.hpp"
#include "mobius/ir/graph_draft.hpp"

namespace mobius::formats {

namespace {

namespace field = onnx;
using ir::GraphDraft;
using onnx::bytes;
using onnx::fixed32;
using onnx::varint;
using protozero::data_view;
using protozero::pbf_reader;

// Runs `body`; what fails in it is told with its place in front.
template <class Place, class Body>
auto inside(const Place& place, const Body& body) {
  try {
    return body();
  } catch (const protozero::exception& e) {
    fail(ErrorKind::corrupt_file, "{}: not ONNX, or a damaged protobuf message ({})", place(), e.what());
  } catch (const Error& e) {
    throw e.within(place());
  }
}

using Opsets = std::map<std::string, std::int64_t, std::less<>>;

class Reader {
 public:
  explicit Reader(onnx::TensorReader& tensors) : tensors_(tensors) {}

  ir::Model model(data_view proto) {
    ir::Model model;
    std::optional<data_view> graph_proto;
    std::vector<data_view> functions;
    for (pbf_reader r(proto); r.next();) {
      switch (r.tag_and_type()) {
        case varint(field::model::ir_version): model.ir_version = r.get_int64(); break;
        case bytes(field::model::producer_name): model.producer_name = r.get_string(); break;
        case bytes(field::model::producer_version): model.producer_version = r.get_string(); break;
        case bytes(field::model::domain): model.domain = r.get_string(); break;
        case varint(field::model::model_version): model.model_version = r.get_int64(); break;
        case bytes(field::model::doc_string): model.doc = r.get_string(); break;
        case bytes(field::model::opset_import): opset(r.get_view(), model.opset_imports); break;
        case bytes(field::model::metadata_props): onnx::read_entry(r.get_view(), model.metadata); break;
        case bytes(field::model::functions): functions.push_back(r.get_view()); break;
        case bytes(field::model::training_info): fail(ErrorKind::unsupported, "training information is not supported");
        case bytes(field::model::configuration): drop("device configurations", r); break;
        case bytes(field::model::graph):
          if (graph_proto) fail(ErrorKind::corrupt_file, "has two graphs");
          graph_proto = r.get_view();
          break;
        default: r.skip();
      }
    }
    if (!graph_proto) fail(ErrorKind::corrupt_file, "has no graph: not an ONNX model");
    inside([] { return "graph"; }, [&] { ir::build_graph(graph(*graph_proto, 0), *model.graph, {}); });
    for (const data_view f : functions) add_function(f, model);
    return model;
  }

 private:
  void drop(std::string_view what, pbf_reader& r) {
    r.skip();
    if (!std::exchange(has_warned_, true)) logging::warning("the model has {}, which are not kept", what);
  }

  static void opset(data_view proto, Opsets& opsets) {
    std::string domain;
    std::int64_t version = 0;
    for (pbf_reader r(proto); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(field::opset::domain): domain = r.get_string(); break;
        case varint(field::opset::version): version = r.get_int64(); break;
        default: r.skip();
      }
    }
    if (domain == "ai.onnx") domain.clear();
    const auto [it, is_new] = opsets.try_emplace(domain, version);
    if (!is_new && it->second != version) fail(ErrorKind::corrupt_file, "imports the operators of \"{}\" in versions {} and {}", domain, it->second, version);
  }

  // ── graphs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

  GraphDraft graph(data_view proto, int depth) {
    if (depth > ir::max_nesting) fail(ErrorKind::corrupt_file, "graphs are nested more than {} deep", ir::max_nesting);
    GraphDraft draft;
    std::vector<data_view> value_infos;
    for (pbf_reader r(proto); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(field::graph::node): add_node(r.get_view(), draft.nodes, depth); break;
        case bytes(field::graph::name): draft.name = r.get_string(); break;
        case bytes(field::graph::initializer): draft.values.push_back(initializer(r.get_view())); break;
        case bytes(field::graph::doc_string): draft.doc = r.get_string(); break;
        case bytes(field::graph::input): draft.inputs.push_back(value_info(r.get_view())); break;
        case bytes(field::graph::output): draft.outputs.push_back(value_info(r.get_view())); break;
        case bytes(field::graph::value_info): value_infos.push_back(r.get_view()); break;
        case bytes(field::graph::metadata_props): onnx::read_entry(r.get_view(), draft.metadata); break;
        case bytes(field::graph::quantization_annotation): drop("quantization annotations", r); break;
        case bytes(field::graph::sparse_initializer): fail(ErrorKind::unsupported, "sparse initializers are not supported");
        default: r.skip();
      }
    }
    for (const data_view v : value_infos) draft.values.push_back(value_info(v));
    return draft;
  }

  GraphDraft::Value initializer(data_view proto) {
    onnx::NamedTensor tensor = tensors_.read(proto);
    return {.name = std::move(tensor.name), .data = std::move(tensor.data), .metadata = std::move(tensor.metadata), .doc = std::move(tensor.doc)};
  }

  static GraphDraft::Value value_info(data_view proto) {
    GraphDraft::Value value;
    return inside([&] { return fmt::format("value \"{}\"", value.name); },
                  [&] {
                    for (pbf_reader r(proto); r.next();) {
                      switch (r.tag_and_type()) {
                        case bytes(field::value_info::name): value.name = r.get_string(); break;
                        case bytes(field::value_info::type): value.type = type(r.get_view(), 0); break;
                        case bytes(field::value_info::doc_string): value.doc = r.get_string(); break;
                        case bytes(field::value_info::metadata_props): onnx::read_entry(r.get_view(), value.metadata); break;
                        default: r.skip();
                      }
                    }
                    return value;
                  });
  }

  void add_node(data_view proto, std::vector<GraphDraft::Node>& nodes, int depth) {
    GraphDraft::Node result;
    std::string op_type, domain;
    const auto place = [&] { return fmt::format("node {} ({}{}{})", nodes.size(), op_type, result.name.empty() ? "" : " ", result.name); };
    inside(place, [&] {
      std::vector<data_view> attributes;
      for (pbf_reader r(proto); r.next();) {
        switch (r.tag_and_type()) {
          case bytes(field::node::input): result.inputs.push_back(r.get_string()); break;
          case bytes(field::node::output): result.outputs.push_back(r.get_string()); break;
          case bytes(field::node::name): result.name = r.get_string(); break;
          case bytes(field::node::op_type): op_type = r.get_string(); break;
          case bytes(field::node::attribute): attributes.push_back(r.get_view()); break;
          case bytes(field::node::doc_string): result.doc = r.get_string(); break;
          case bytes(field::node::domain): domain = r.get_string(); break;
          case bytes(field::node::overload): result.overload = r.get_string(); break;
          case bytes(field::node::metadata_props): onnx::read_entry(r.get_view(), result.metadata); break;
          case bytes(field::node::device_configurations): drop("device configurations", r); break;
          default: r.skip();
        }
      }
      result.op = ir::make_op_name(domain, op_type);
      for (const data_view a : attributes) add_attribute(a, result.attributes, &result.subgraphs, depth);
    });
    nodes.push_back(std::move(result));
  }

  // ── types ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

  static ir::Type type(data_view proto, int depth) {
    if (depth > ir::max_nesting) fail(ErrorKind::corrupt_file, "types are nested more than {} deep", ir::max_nesting);
    using Kind = ir::Type::Kind;
    ir::Type result;
    for (pbf_reader r(proto); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(field::type::tensor_type): result = tensor_type(r.get_view(), Kind::tensor); break;
        case bytes(field::type::sparse_tensor_type): result = tensor_type(r.get_view(), Kind::sparse_tensor); break;
        case bytes(field::type::sequence_type): result = container_type(r.get_view(), Kind::sequence, depth); break;
        case bytes(field::type::optional_type): result = container_type(r.get_view(), Kind::optional, depth); break;
        case bytes(field::type::map_type): result = container_type(r.get_view(), Kind::map, depth); break;
        case bytes(field::type::opaque_type): fail(ErrorKind::unsupported, "opaque types are not supported");
        default: r.skip();
      }
    }
    return result;
  }

  static ir::Type tensor_type(data_view proto, ir::Type::Kind kind) {
    ir::Type result{.kind = kind};
    for (pbf_reader r(proto); r.next();) {
      switch (r.tag_and_type()) {
        case varint(field::type::elem_type): result.dtype = onnx::data_type_from_number(r.get_int32()); break;
        case bytes(field::type::shape): result.shape = shape(r.get_view()); break;
        default: r.skip();
      }
    }
    return result;
  }

  static ir::Type container_type(data_view proto, ir::Type::Kind kind, int depth) {
    ir::Type result{.kind = kind}, element;
    const bool is_map = kind == ir::Type::Kind::map;
    for (pbf_reader r(proto); r.next();) {
      if (is_map && r.tag_and_type() == varint(field::type::key_type)) {
        result.dtype = onnx::data_type_from_number(r.get_int32());
      } else if (r.tag_and_type() == bytes(is_map ? +field::type::value_type : +field::type::elem_type)) {
        element = type(r.get_view(), depth + 1);
      } else {
        r.skip();
      }
    }
    result.element = std::make_shared<const ir::Type>(std::move(element));
    return result;
  }

  static ir::Shape shape(data_view proto) {
    ir::Shape dims;
    for (pbf_reader r(proto); r.next();) {
      if (r.tag_and_type() == bytes(field::shape::dim)) dims.push_back(dimension(r.get_view()));
      else r.skip();
    }
    return dims;
  }

  static ir::Dim dimension(data_view proto) {
    ir::Dim dim;
    for (pbf_reader r(proto); r.next();) {
      switch (r.tag_and_type()) {
        case varint(field::shape::dim_value): {
          const std::int64_t n = r.get_int64();
          dim = n < 0 ? ir::Dim() : ir::Dim(n);  // some exporters write -1 for "unknown"
          break;
        }
        case bytes(field::shape::dim_param): dim = ir::dim_from_text(r.get_string()); break;
        default: r.skip();
      }
    }
    return dim;
  }

  // ── attributes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  struct AttributeFields {
    std::string name, reference, s;
    int type = 0;
    std::int64_t i = 0;
    float f = 0;
    std::vector<std::int64_t> ints;
    std::vector<float> floats;
    std::vector<std::string> strings;
    std::vector<data_view> tensor, tensors, graph, graphs, type_proto, type_protos;
    int seen = 0;  // the type that the fields present suggest, for files that state none
  };

  static void scan(data_view proto, AttributeFields& a) {
    using namespace field::attribute;
    for (pbf_reader r(proto); r.next();) {
      const std::uint32_t tag = r.tag();  // gone once the field is read
      switch (r.tag_and_type()) {
        case bytes(field::attribute::name): a.name = r.get_string(); continue;
        case bytes(ref_attr_name): a.reference = r.get_string(); continue;
        case varint(field::attribute::type): a.type = r.get_int32(); continue;
        case fixed32(f): a.f = r.get_float(); break;
        case varint(i): a.i = r.get_int64(); break;
        case bytes(s): a.s = r.get_string(); break;
        case bytes(t): a.tensor = {r.get_view()}; break;
        case bytes(g): a.graph = {r.get_view()}; break;
        case bytes(tp): a.type_proto = {r.get_view()}; break;
        case fixed32(floats): a.floats.push_back(r.get_float()); break;
        case bytes(floats):
          for (const float v : r.get_packed_float()) a.floats.push_back(v);
          break;
        case varint(ints): a.ints.push_back(r.get_int64()); break;
        case bytes(ints):
          for (const std::int64_t v : r.get_packed_int64()) a.ints.push_back(v);
          break;
        case bytes(strings): a.strings.push_back(r.get_string()); break;
        case bytes(field::attribute::tensors): a.tensors.push_back(r.get_view()); break;
        case bytes(graphs): a.graphs.push_back(r.get_view()); break;
        case bytes(type_protos): a.type_protos.push_back(r.get_view()); break;
        case bytes(sparse_tensor):
        case bytes(sparse_tensors): fail(ErrorKind::unsupported, "sparse tensors are not supported");
        default: r.skip(); continue;
      }
      a.seen = suggested_type(tag);
    }
  }

  static int suggested_type(std::uint32_t tag) {
    using namespace field::attribute;
    constexpr std::array<std::pair<std::uint32_t, int>, 12> types = {{{f, type_float},
                                                                      {i, type_int},
                                                                      {s, type_string},
                                                                      {t, type_tensor},
                                                                      {g, type_graph},
                                                                      {tp, type_type_proto},
                                                                      {floats, type_floats},
                                                                      {ints, type_ints},
                                                                      {strings, type_strings},
                                                                      {field::attribute::tensors, type_tensors},
                                                                      {graphs, type_graphs},
                                                                      {type_protos, type_type_protos}}};
    for (const auto& [field_number, type] : types)
      if (field_number == tag) return type;
    return type_undefined;
  }

  void add_attribute(data_view proto, ir::Attributes& attributes, std::vector<GraphDraft::Node::Subgraphs>* subgraphs, int depth) {
    AttributeFields a;
    inside([&] { return fmt::format("attribute \"{}\"", a.name); },
           [&] {
             scan(proto, a);
             if (attributes.contains(a.name)) fail(ErrorKind::corrupt_file, "is given twice");
             for (std::size_t k = 0; subgraphs && k < subgraphs->size(); ++k)
               if ((*subgraphs)[k].attribute == a.name) fail(ErrorKind::corrupt_file, "is given twice");
             const int type = a.type != 0 ? a.type : a.seen;
             if (!a.reference.empty()) {
               attributes[a.name] = ir::AttributeReference{a.reference, a.type};
             } else if (type == field::attribute::type_graph || type == field::attribute::type_graphs) {
               if (!subgraphs) fail(ErrorKind::unsupported, "an attribute's default value can't be a graph");
               subgraphs->push_back(subgraph_attribute(a, type, depth));
             } else {
               attributes[a.name] = plain_attribute(a, type);
             }
           });
  }

  GraphDraft::Node::Subgraphs subgraph_attribute(const AttributeFields& a, int type, int depth) {
    GraphDraft::Node::Subgraphs result{a.name, type == field::attribute::type_graphs};
    for (const data_view g : result.is_list ? a.graphs : a.graph) result.graphs.push_back(graph(g, depth + 1));
    if (!result.is_list && result.graphs.empty()) fail(ErrorKind::corrupt_file, "has no graph");
    return result;
  }

  ir::Attribute plain_attribute(AttributeFields& a, int type_number) {
    using namespace field::attribute;
    switch (type_number) {
      case type_float: return a.f;
      case type_int: return a.i;
      case type_string: return std::move(a.s);
      case type_floats: return std::move(a.floats);
      case type_ints: return std::move(a.ints);
      case type_strings: return std::move(a.strings);
      case type_tensor:
        if (a.tensor.empty()) fail(ErrorKind::corrupt_file, "has no tensor");
        return tensors_.read(a.tensor[0]).data;
      case type_tensors: {
        std::vector<ir::TensorPtr> list;
        for (const data_view v : a.tensors) list.push_back(tensors_.read(v).data);
        return list;
      }
      case type_type_proto:
        if (a.type_proto.empty()) fail(ErrorKind::corrupt_file, "has no type");
        return known_type(a.type_proto[0]);
      case type_type_protos: {
        std::vector<ir::Type> list;
        for (const data_view v : a.type_protos) list.push_back(known_type(v));
        return list;
      }
      case type_sparse_tensor:
      case type_sparse_tensors: fail(ErrorKind::unsupported, "sparse tensors are not supported");
      default: fail(ErrorKind::corrupt_file, "has type {}, which is not one of ONNX", type_number);
    }
  }

  static ir::Type known_type(data_view proto) {
    ir::Type result = type(proto, 0);
    if (!result.is_known()) fail(ErrorKind::corrupt_file, "holds an empty type");
    return result;
  }

  // ── functions ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  void add_function(data_view proto, ir::Model& model) {
    ir::Function f;
    inside([&] { return fmt::format("function {}::{}", f.domain, f.name); },
           [&] {
             ir::build_graph(function(proto, f), *f.body, {});
             if (model.find_function({f.domain, f.name}, f.overload)) fail(ErrorKind::corrupt_file, "is defined twice");
           });
    model.functions.push_back(std::move(f));
  }

  GraphDraft function(data_view proto, ir::Function& f) {
    GraphDraft draft;
    for (pbf_reader r(proto); r.next();) {
      switch (r.tag_and_type()) {
        case bytes(field::function::name): f.name = r.get_string(); break;
        case bytes(field::function::input): draft.inputs.push_back({.name = r.get_string()}); break;
        case bytes(field::function::output): draft.outputs.push_back({.name = r.get_string()}); break;
        case bytes(field::function::attribute): f.attributes.push_back(r.get_string()); break;
        case bytes(field::function::node): add_node(r.get_view(), draft.nodes, 0); break;
        case bytes(field::function::doc_string): f.doc = r.get_string(); break;
        case bytes(field::function::opset_import): opset(r.get_view(), f.opset_imports); break;
        case bytes(field::function::domain): f.domain = r.get_string(); break;
        case bytes(field::function::attribute_proto): add_attribute(r.get_view(), f.attribute_defaults, nullptr, 0); break;
        case bytes(field::function::value_info): draft.values.push_back(value_info(r.get_view())); break;
        case bytes(field::function::overload): f.overload = r.get_string(); break;
        case bytes(field::function::metadata_props): onnx::read_entry(r.get_view(), f.metadata); break;
        default: r.skip();
      }
    }
    if (f.domain == "ai.onnx") f.domain.clear();
    draft.name = f.name;
    return draft;
  }

  onnx::TensorReader& tensors_;
  bool has_warned_ = false;
};

ir::Model read_model(std::span<const std::byte> data, onnx::TensorReader& tensors, std::string_view place) {
  const data_view view(reinterpret_cast<const char*>(data.data()), data.size());
  return inside([&] { return place; }, [&] { return Reader(tensors).model(view); });
}

}  // namespace

ir::Model read_onnx(const fs::path& path, ExternalData external, ExternalFiles* files) {
  auto file = MappedFile::open(path);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  onnx::TensorReader tensors(file, folder, external == ExternalData::skip);
  auto model = read_model(file->bytes(), tensors, path.string());
  if (files) *files = tensors.external_files();
  return model;
}

ir::Model parse_onnx(std::span<const std::byte> data, const fs::path& folder, ExternalData external) {
  onnx::TensorReader tensors(nullptr, folder, external == ExternalData::skip);
  return read_model(data, tensors, "the ONNX model");
}

}  // namespace mobius::formats

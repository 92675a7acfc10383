// A Model as ONNX's textual syntax, in the layout of onnx.printer and readable by onnx.parser.
// The syntax has no place for metadata and documentation of graphs, nodes and values, nor for lists of graphs (onnx.parser drops them).
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>

#include "mobius/ir/model.hpp"
#include "mobius/ir/text_cursor.hpp"
#include "mobius/ir/unbound.hpp"

namespace mobius::ir {

namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

class TextPrinter {
 public:
  explicit TextPrinter(const TextOptions& options) : options_(options) {}

  std::string take() { return std::move(out_); }

  void model(const Model& model) {
    put("<\n   ir_version: {},\n   opset_import: ", model.ir_version);
    opsets(model.opset_imports);
    header_string("producer_name", model.producer_name);
    header_string("producer_version", model.producer_version);
    header_string("domain", model.domain);
    if (model.model_version != 0) put(",\n   model_version: {}", model.model_version);
    header_string("doc_string", model.doc);
    if (!model.metadata.empty()) {
      out_ += ",\n   metadata_props: ";
      separated("[", "]", model.metadata, [&](const auto& entry) {
        quoted(entry.first);
        out_ += ": ";
        quoted(entry.second);
      });
    }
    out_ += "\n>\n";
    graph(*model.graph, false);
    out_ += '\n';
    for (const Function& f : model.functions) function(f);
  }

  void graph(const Graph& graph, bool is_attribute) {
    if (is_attribute) out_ += subgraph_name(graph.name);
    else name(graph.name);
    separated(" (", ")", graph.inputs(), [&](const Value* v) { declaration(*v); });
    separated(" => (", ")", graph.outputs(), [&](const Value* v) { typed_name(*v); });
    values(graph, false);
    nodes(graph, false);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  template <class Range, class Each>
  void separated(std::string_view open, std::string_view close, const Range& range, Each each, std::string_view separator = ", ") {
    out_ += open;
    bool first = true;
    for (const auto& element : range) {
      if (!std::exchange(first, false)) out_ += separator;
      each(element);
    }
    out_ += close;
  }

  // ── names and numbers ──────────────────────────────────────────────────────────────────────────────────────────────────

  void quoted(std::string_view text) {
    out_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') out_ += '\\';
      out_ += c;
    }
    out_ += '"';
  }

  // A word that begins a type must be quoted where a type may stand.
  void name(std::string_view text) {
    if (is_text_identifier(text) && !is_text_type_name(text)) out_ += text;
    else quoted(text);
  }

  // onnx.parser takes a plain identifier here, and not one that reads as a type or as a number.
  static std::string subgraph_name(std::string_view text) {
    std::string plain;
    for (const char c : text) plain += is_text_identifier(std::string("_") + c) ? c : '_';
    const bool is_special = TextCursor(plain).next_is_float_word() || is_text_type_name(plain);
    return is_text_identifier(plain) && !is_special ? plain : "_" + plain;
  }

  void identifier(std::string_view text) {
    if (is_text_identifier(text)) out_ += text;
    else quoted(text);
  }

  template <class T>
  void number(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) {
        out_ += std::signbit(value) ? "-nan" : "nan";
        return;
      }
    }
    char digits[32];
    out_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }

  void header_string(std::string_view key, std::string_view value) {
    if (value.empty()) return;
    put(",\n   {}: ", key);
    quoted(value);
  }

  void opsets(const std::map<std::string, std::int64_t, std::less<>>& imports) {
    separated("[", "]", imports, [&](const auto& entry) {
      quoted(entry.first);
      put(" : {}", entry.second);
    });
  }

  // ── types and tensors ──────────────────────────────────────────────────────────────────────────────────────────────────

  void type(const Type& t) {
    switch (t.kind) {
      case Type::Kind::tensor: return tensor_type(t);
      case Type::Kind::sparse_tensor:
        out_ += "sparse_tensor(";
        tensor_type(t);
        break;
      case Type::Kind::sequence:
      case Type::Kind::optional:
        out_ += t.kind == Type::Kind::sequence ? "seq(" : "optional(";
        if (t.element) type(*t.element);
        break;
      case Type::Kind::map:
        put("map({}, ", text_name(t.dtype));
        if (t.element) type(*t.element);
        break;
    }
    out_ += ')';
  }

  void tensor_type(const Type& t) {
    out_ += text_name(t.dtype);
    if (!t.shape) {
      out_ += "[]";
    } else if (!t.shape->empty()) {
      separated(
          "[", "]", *t.shape, [&](const Dim& d) { dimension(d); }, ",");
    }
  }

  void dimension(const Dim& d) {
    if (d.is_unknown()) out_ += '?';
    else if (d.is_static()) number(d.value());
    else identifier(d.to_string());
  }

  void typed_name(const Value& value) {
    if (value.type.is_known()) {
      type(value.type);
      out_ += ' ';
    }
    name(value.name);
  }

  void declaration(const Value& value) {
    typed_name(value);
    if (value.is_initializer()) initial_value(*value.data());
  }

  void initial_value(const TensorData& tensor) {
    if (const auto bytes = printable_bytes(tensor)) {
      out_ += " = ";
      elements(tensor, *bytes);
    }
  }

  // nullopt: too large to print, or not bound.
  std::optional<std::vector<std::byte>> printable_bytes(const TensorData& tensor) const {
    if (tensor.elements() > options_.max_elements || unbound_leaf(tensor)) return std::nullopt;
    return tensor.dtype() == DataType::string ? std::vector<std::byte>() : tensor.bytes();
  }

  void elements(const TensorData& tensor, std::span<const std::byte> bytes) {
    switch (tensor.dtype()) {
      case DataType::string:
        if (const auto* strings = string_values(tensor)) separated("{", "}", *strings, [&](const std::string& s) { quoted(s); });
        return;
      case DataType::float32:
      case DataType::complex64: return numbers<float>(bytes);
      case DataType::float64:
      case DataType::complex128: return numbers<double>(bytes);
      case DataType::int64: return numbers<std::int64_t>(bytes);
      case DataType::uint64: return numbers<std::uint64_t>(bytes);
      case DataType::int32: return numbers<std::int32_t>(bytes);
      case DataType::uint32: return numbers<std::uint32_t>(bytes);
      case DataType::int16: return numbers<std::int16_t>(bytes);
      case DataType::uint16:
      case DataType::float16:
      case DataType::bfloat16: return numbers<std::uint16_t>(bytes);  // bit patterns
      case DataType::int8: return numbers<std::int8_t>(bytes);
      default: return numbers<std::uint8_t>(bytes);  // bit patterns, packed below a byte
    }
  }

  template <class T>
  void numbers(std::span<const std::byte> bytes) {
    out_ += '{';
    for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
      if (i > 0) out_ += ',';
      number(load<T>(bytes.data() + i));
    }
    out_ += '}';
  }

  // Initializers and, if wanted, the types of values between nodes.
  void values(const Graph& graph, bool is_function) {
    std::vector<const Value*> listed;
    for (const Value* v : graph.initializers())
      if (!is_function && !v->is_graph_input()) listed.push_back(v);
    for (const Node* n : graph.nodes())
      for (const Value* v : n->outputs())
        if (options_.value_info && v && v->type.is_known() && !v->is_graph_output()) listed.push_back(v);
    if (listed.empty()) {
      out_ += ' ';
      return;
    }
    const std::string margin = "\n" + std::string(static_cast<std::size_t>(indent_), ' ');
    separated(
        margin + "<", ">" + margin.substr(0, margin.size() - 3), listed, [&](const Value* v) { declaration(*v); }, "," + margin + " ");
  }

  // ── attributes, nodes, functions ───────────────────────────────────────────────────────────────────────────────────────

  void tensor_attribute(const TensorPtr& tensor) {
    const Dims& dims = tensor->dims();
    tensor_type({.dtype = tensor->dtype(), .shape = Shape(dims.begin(), dims.end())});
    out_ += ' ';
    if (const auto bytes = printable_bytes(*tensor)) elements(*tensor, *bytes);
    else out_ += "{...}";
  }

  void subgraph(const GraphPtr& g) {
    indent_ += 3;
    graph(*g, true);
    indent_ -= 3;
  }

  static std::string_view kind_word(int onnx_type) {
    constexpr std::string_view words[] = {"",        "float",   "int",    "string",        "tensor",         "graph",      "floats",     "ints",
                                          "strings", "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type_proto", "type_protos"};
    return onnx_type > 0 && onnx_type < static_cast<int>(std::size(words)) ? words[onnx_type] : "";
  }

  void put_value(std::int64_t v) { number(v); }
  void put_value(float v) { number(v); }
  void put_value(const std::string& v) { quoted(v); }
  void put_value(const TensorPtr& v) { tensor_attribute(v); }
  void put_value(const GraphPtr& v) { subgraph(v); }
  void put_value(const Type& v) { type(v); }
  void put_value(const AttributeReference& v) {
    out_ += '@';
    identifier(v.name);
  }
  template <class T>
  void put_value(const std::vector<T>& list) {
    separated("[", "]", list, [&](const T& v) { put_value(v); });
  }

  void attribute(const std::string& key, const Attribute& attribute) {
    constexpr int onnx_types[] = {2, 1, 3, 4, 5, 7, 6, 8, 9, 10, 13, 14, 0};  // in the order of Attribute's alternatives
    const auto* reference = std::get_if<AttributeReference>(&attribute);
    const std::string_view word = kind_word(reference ? reference->onnx_type : onnx_types[attribute.index()]);
    identifier(key);
    if (!word.empty()) put(": {}", word);
    out_ += " = ";
    std::visit([&](const auto& v) { put_value(v); }, attribute);
  }

  void attributes(const Node& node) {
    separated(" <", ">", node.attributes, [&](const auto& entry) { attribute(entry.first, entry.second); });
  }

  void op_name(OpName op) {
    std::string_view rest = op.domain;
    bool is_plain = !rest.empty();
    while (is_plain && !rest.empty()) {
      const auto dot = rest.find('.');
      is_plain = is_text_identifier(rest.substr(0, dot)) && dot != rest.size() - 1;
      rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    }
    if (is_plain) out_ += op.domain;
    else if (!op.domain.empty()) quoted(op.domain);
    if (!op.domain.empty()) out_ += '.';
    identifier(op.type);
  }

  void names(std::string_view open, std::string_view close, const std::vector<Value*>& values) {
    separated(open, close, values, [&](const Value* v) { name(v ? std::string_view(v->name) : std::string_view()); });
  }

  void node(const Node& node) {
    out_.append(static_cast<std::size_t>(indent_), ' ');
    if (!node.name.empty()) {
      out_ += '[';
      name(node.name);
      out_ += "] ";
    }
    names("", " = ", node.outputs());
    op_name(node.op);
    if (!node.overload.empty()) {
      out_ += ':';
      identifier(node.overload);
    }
    const bool has_subgraph = !node.subgraphs().empty();
    if (!has_subgraph && !node.attributes.empty()) attributes(node);
    names(" (", ")", node.inputs());
    if (has_subgraph) attributes(node);
    out_ += '\n';
  }

  // The body of a function has no initializers in ONNX: they are printed as Constant nodes.
  void nodes(const Graph& graph, bool is_function) {
    out_ += "{\n";
    for (const Value* v : graph.initializers()) {
      if (!is_function) break;
      out_.append(static_cast<std::size_t>(indent_), ' ');
      name(v->name);
      out_ += " = Constant <value: tensor = ";
      tensor_attribute(v->data());
      out_ += "> ()\n";
    }
    for (const Node* n : graph.nodes()) node(*n);
    out_.append(static_cast<std::size_t>(indent_ - 3), ' ');
    out_ += '}';
  }

  void function(const Function& f) {
    out_ += "<\n   domain: ";
    quoted(f.domain);
    header_string("overload", f.overload);
    out_ += ",\n   opset_import: ";
    opsets(f.opset_imports);
    header_string("doc_string", f.doc);
    out_ += "\n>\n";
    name(f.name);
    if (!f.attributes.empty() || !f.attribute_defaults.empty()) {
      separated(" <", f.attributes.empty() || f.attribute_defaults.empty() ? "" : ", ", f.attributes, [&](const std::string& a) { identifier(a); });
      separated("", ">", f.attribute_defaults, [&](const auto& entry) { attribute(entry.first, entry.second); });
    }
    separated(" (", ")", f.body->inputs(), [&](const Value* v) { typed_name(*v); });
    separated(" => (", ")", f.body->outputs(), [&](const Value* v) { typed_name(*v); });
    values(*f.body, true);
    nodes(*f.body, true);
    out_ += '\n';
  }

  const TextOptions& options_;
  std::string out_;
  int indent_ = 3;
};

}  // namespace

std::string to_text(const Model& model, const TextOptions& options) {
  TextPrinter printer(options);
  printer.model(model);
  return printer.take();
}

std::string to_text(const Graph& graph, const TextOptions& options) {
  TextPrinter printer(options);
  printer.graph(graph, false);
  return printer.take() + "\n";
}

}  // namespace mobius::ir

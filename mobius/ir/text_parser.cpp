// ONNX's textual syntax to a Model. The grammar is that of docs/Syntax.md and onnx.parser (onnx 1.23); what is read beyond it:
// - a header may be absent: ir_version 11, ai.onnx 24, every other domain at version 1;
// - a graph may have no name; operator domains, overloads and subgraph names may be quoted;
// - lists of graphs, tensors and types keep their elements; elements narrower than a byte may be written one by one;
// - float16 and bfloat16 elements with a point or an exponent are values (without: bit patterns, as in onnx.parser);
// - a typed name in <...> that nothing produces is an initializer whose data is bound later.
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "mobius/base/numeric.hpp"
#include "mobius/ir/graph_draft.hpp"
#include "mobius/ir/model.hpp"
#include "mobius/ir/text_cursor.hpp"

namespace mobius::ir {

namespace {

enum class Kind { undefined, real, integer, string, tensor, graph, reals, integers, strings, tensors, graphs, type = 13, types };

constexpr std::array<std::pair<std::string_view, Kind>, 12> kind_names = {{{"float", Kind::real},
                                                                           {"int", Kind::integer},
                                                                           {"string", Kind::string},
                                                                           {"tensor", Kind::tensor},
                                                                           {"graph", Kind::graph},
                                                                           {"floats", Kind::reals},
                                                                           {"ints", Kind::integers},
                                                                           {"strings", Kind::strings},
                                                                           {"tensors", Kind::tensors},
                                                                           {"graphs", Kind::graphs},
                                                                           {"type_proto", Kind::type},
                                                                           {"type_protos", Kind::types}}};

std::string_view kind_name(Kind kind) {
  for (const auto& [name, k] : kind_names)
    if (k == kind) return name;
  return "undefined";
}

bool is_list(Kind kind) { return (kind >= Kind::reals && kind <= Kind::graphs) || kind == Kind::types; }

Kind element_kind(Kind list) {
  switch (list) {
    case Kind::reals: return Kind::real;
    case Kind::integers: return Kind::integer;
    case Kind::strings: return Kind::string;
    case Kind::tensors: return Kind::tensor;
    case Kind::graphs: return Kind::graph;
    case Kind::types: return Kind::type;
    default: return list;
  }
}

using Single = std::variant<std::int64_t, float, std::string, TensorPtr, Type, GraphDraft>;

Kind kind_of(const Single& value) {
  constexpr std::array kinds = {Kind::integer, Kind::real, Kind::string, Kind::tensor, Kind::type, Kind::graph};
  return kinds[value.index()];
}

class TextParser {
 public:
  explicit TextParser(std::string_view text) : in_(text) {}

  Model model() {
    Model model;
    if (in_.accept('<')) model_header(model);
    GraphDraft draft = graph(0);
    const DraftOptions options{.place = [this](std::size_t at) { return in_.place(at); }, .placeholders = true};
    build_graph(std::move(draft), *model.graph, options);
    while (!in_.at_end()) model.functions.push_back(function(options));
    if (!has_opsets_) add_default_opsets(model);
    return model;
  }

 private:
  // ── headers ────────────────────────────────────────────────────────────────────────────────────────────────────────────

  void model_header(Model& model) {
    do {
      const std::size_t at = in_.position();
      const std::string key = in_.identifier("a key of the model's header");
      in_.expect(':', "after the key");
      if (key == "ir_version") model.ir_version = in_.integer("the IR version");
      else if (key == "opset_import") opsets(model.opset_imports);
      else if (key == "producer_name") model.producer_name = in_.quoted("the producer's name");
      else if (key == "producer_version") model.producer_version = in_.quoted("the producer's version");
      else if (key == "domain") model.domain = in_.quoted("the domain");
      else if (key == "model_version") model.model_version = in_.integer("the model's version");
      else if (key == "doc_string") model.doc = in_.quoted("the documentation");
      else if (key == "metadata_props") metadata(model.metadata);
      else in_.fail_at(at, "\"{}\" is not a key of a model's header", key);
      has_opsets_ = has_opsets_ || key == "opset_import";
    } while (in_.accept(','));
    in_.expect('>', "after the header");
  }

  void function_header(Function& function) {
    do {
      const std::size_t at = in_.position();
      const std::string key = in_.identifier("a key of the function's header");
      in_.expect(':', "after the key");
      if (key == "opset_import") opsets(function.opset_imports);
      else if (key == "doc_string") function.doc = in_.quoted("the documentation");
      else if (key == "domain") function.domain = in_.quoted("the domain");
      else if (key == "overload") function.overload = in_.quoted("the overload");
      else in_.fail_at(at, "\"{}\" is not a key of a function's header", key);
    } while (in_.accept(','));
    in_.expect('>', "after the header");
  }

  void opsets(std::map<std::string, std::int64_t, std::less<>>& imports) {
    in_.expect('[', "before the opset imports");
    if (in_.accept(']')) return;
    do {
      std::string domain = in_.quoted("an operator domain");
      in_.expect(':', "after the domain");
      if (domain == "ai.onnx") domain.clear();
      imports[domain] = in_.integer("an opset version");
    } while (in_.accept(','));
    in_.expect(']', "after the opset imports");
  }

  void metadata(Metadata& metadata) {
    in_.expect('[', "before the metadata");
    if (in_.accept(']')) return;
    do {
      std::string key = in_.quoted("a metadata key");
      in_.expect(':', "after the key");
      metadata[std::move(key)] = in_.quoted("a metadata value");
    } while (in_.accept(','));
    in_.expect(']', "after the metadata");
  }

  void add_default_opsets(Model& model) const {
    model.opset_imports[""] = 24;
    for (const std::string& domain : domains_) model.opset_imports.try_emplace(domain, 1);
  }

  // ── types and values ───────────────────────────────────────────────────────────────────────────────────────────────────

  Type type(int depth) {
    if (depth > max_nesting) in_.fail_here("types are nested more than {} deep", max_nesting);
    const std::size_t at = in_.position();
    const std::string word = in_.identifier("a type");
    if (const auto dtype = data_type_from_text(word); dtype && *dtype != DataType::undefined) return {.dtype = *dtype, .shape = shape()};
    in_.expect('(', fmt::format("after the type \"{}\"", word));
    Type result;
    if (word == "seq" || word == "optional") {
      result.kind = word == "seq" ? Type::Kind::sequence : Type::Kind::optional;
      result.element = std::make_shared<const Type>(type(depth + 1));
    } else if (word == "map") {
      const std::size_t key_at = in_.position();
      const auto key = data_type_from_text(in_.identifier("a key type"));
      if (!key) in_.fail_at(key_at, "the key of a map must be an element type");
      in_.expect(',', "after the map's key type");
      result.kind = Type::Kind::map;
      result.dtype = *key;
      result.element = std::make_shared<const Type>(type(depth + 1));
    } else if (word == "sparse_tensor") {
      result = type(depth + 1);
      if (result.kind != Type::Kind::tensor) in_.fail_at(at, "a sparse_tensor has elements of a plain type");
      result.kind = Type::Kind::sparse_tensor;
    } else {
      in_.fail_at(at, "\"{}\" is not a type", word);
    }
    in_.expect(')', "after the element type");
    return result;
  }

  // float: a scalar; float[]: unknown rank; float[2,n,?]
  std::optional<Shape> shape() {
    if (!in_.accept('[')) return Shape{};
    if (in_.accept(']')) return std::nullopt;
    Shape dims;
    do {
      if (in_.accept('?')) dims.emplace_back();
      else if (in_.next_is_quotable()) dims.push_back(dim_from_text(in_.quotable("a dimension")));
      else dims.emplace_back(in_.integer("a dimension"));
    } while (in_.accept(','));
    in_.expect(']', "after the dimensions");
    return dims;
  }

  GraphDraft::Value value(std::string_view what) {
    GraphDraft::Value result;
    result.at = in_.position();
    if (in_.next_is_type()) result.type = type(0);
    result.name = in_.quotable(what);
    return result;
  }

  // '(' type? name ('=' data)? , ... ')'
  std::vector<GraphDraft::Value> value_list(char open, char close, std::string_view what, bool allow_data) {
    std::vector<GraphDraft::Value> values;
    in_.expect(open, fmt::format("before the {}", what));
    if (in_.accept(close)) return values;
    do {
      values.push_back(value(fmt::format("a name among the {}", what)));
      if (allow_data && in_.accept('=')) values.back().data = tensor(values.back().type);
    } while (in_.accept(','));
    in_.expect(close, fmt::format("after the {}", what));
    return values;
  }

  // ── tensors ────────────────────────────────────────────────────────────────────────────────────────────────────────────

  TensorPtr tensor(const Type& type) {
    const std::size_t at = in_.position();
    const auto dims = type.kind == Type::Kind::tensor && type.shape ? static_shape(*type.shape) : std::nullopt;
    if (!dims || type.dtype == DataType::undefined) in_.fail_at(at, "a tensor needs an element type and dimensions that are numbers");
    const auto count = checked_element_count(type.dtype, *dims);
    if (!count) in_.fail_at(at, "the dimensions {} are negative or too large", to_string(*type.shape));
    if (in_.peek() == '[') fail_external();
    in_.expect('{', "before the tensor's elements");
    if (type.dtype == DataType::string) return string_tensor(*dims, *count, at);

    std::vector<std::byte> bytes;
    std::uint64_t written = 0;
    if (!in_.accept('}')) {
      do {
        element(type.dtype, bytes);
        ++written;
      } while (in_.accept(','));
      in_.expect('}', "after the tensor's elements");
    }
    return numeric_tensor(type.dtype, *dims, *count, std::move(bytes), written, at);
  }

  [[noreturn]] void fail_external() {
    fail(ErrorKind::unsupported, "{}: external data is not read from text; write the elements in {{...}}", in_.place(in_.position()));
  }

  TensorPtr string_tensor(const Dims& dims, std::uint64_t count, std::size_t at) {
    std::vector<std::string> values;
    if (!in_.accept('}')) {
      do values.push_back(in_.quoted("a string"));
      while (in_.accept(','));
      in_.expect('}', "after the tensor's elements");
    }
    if (values.size() != count) in_.fail_at(at, "the tensor has {} elements, its dimensions say {}", values.size(), count);
    return make_string_tensor(dims, std::move(values));
  }

  // `bytes` has one entry per literal; for types below a byte these are elements, or packed bytes as in TensorProto.int32_data.
  TensorPtr numeric_tensor(DataType dtype, const Dims& dims, std::uint64_t count, std::vector<std::byte> bytes, std::uint64_t written, std::size_t at) {
    const int bits = bit_width(dtype);
    const bool is_complex = dtype == DataType::complex64 || dtype == DataType::complex128;
    if (bits < 8 && written == byte_size(dtype, count)) return make_tensor(dtype, dims, std::move(bytes));
    if (written != (is_complex ? 2 * count : count))
      in_.fail_at(at, "the tensor has {} numbers, its dimensions say {}", written, is_complex ? 2 * count : count);
    if (bits >= 8) return make_tensor(dtype, dims, std::move(bytes));
    std::vector<std::byte> packed(byte_size(dtype, count));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t bit = i * static_cast<std::size_t>(bits);
      packed[bit / 8] |= (bytes[i] & std::byte((1 << bits) - 1)) << (bit % 8);
    }
    return make_tensor(dtype, dims, std::move(packed));
  }

  template <class T>
  static void append(std::vector<std::byte>& bytes, T value) {
    const auto* raw = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), raw, raw + sizeof(T));
  }

  template <class T>
  void append_integer(std::vector<std::byte>& bytes, const Literal& literal, std::int64_t low, std::int64_t high) {
    const std::int64_t v = in_.as_int64(literal);
    if (v < low || v > high) in_.fail_at(literal.at, "{} is outside the range {} to {}", v, low, high);
    append(bytes, static_cast<T>(v));
  }

  void element(DataType dtype, std::vector<std::byte>& bytes) {
    const Literal literal = in_.literal("a number");
    switch (dtype) {
      case DataType::float32:
      case DataType::complex64: return append(bytes, in_.as_float(literal));
      case DataType::float64:
      case DataType::complex128: return append(bytes, in_.as_double(literal));
      case DataType::int64: return append(bytes, in_.as_int64(literal));
      case DataType::uint64: return append(bytes, in_.as_uint64(literal));
      case DataType::int32:
        return append_integer<std::int32_t>(bytes, literal, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
      case DataType::uint32: return append_integer<std::uint32_t>(bytes, literal, 0, std::numeric_limits<std::uint32_t>::max());
      case DataType::int16: return append_integer<std::int16_t>(bytes, literal, -32768, 32767);
      case DataType::float16:
      case DataType::bfloat16:
        if (literal.kind == Literal::Kind::real) {
          const float v = in_.as_float(literal);
          return append(bytes, dtype == DataType::float16 ? float_to_float16(v) : float_to_bfloat16(v));
        }
        return append_integer<std::uint16_t>(bytes, literal, 0, 65535);
      case DataType::uint16: return append_integer<std::uint16_t>(bytes, literal, 0, 65535);
      case DataType::boolean: return append_integer<std::uint8_t>(bytes, literal, 0, 1);
      case DataType::int8: return append_integer<std::int8_t>(bytes, literal, -128, 127);
      case DataType::int4:
      case DataType::int2: return append_integer<std::int8_t>(bytes, literal, -128, 255);
      default: return append_integer<std::uint8_t>(bytes, literal, 0, 255);
    }
  }

  // ── attributes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  Single single_value(Kind expected, int depth) {
    const std::size_t at = in_.position();
    Single value = scan_value(expected, depth);
    if (expected == Kind::real && std::holds_alternative<std::int64_t>(value)) value = static_cast<float>(std::get<std::int64_t>(value));
    if (expected != Kind::undefined && kind_of(value) != expected)
      in_.fail_at(at, "the attribute is declared {}, its value is {}", kind_name(expected), kind_name(kind_of(value)));
    return value;
  }

  Single scan_value(Kind expected, int depth) {
    if (expected == Kind::graph && in_.peek() == '"') return graph(depth + 1);
    if (in_.peek_identifier().empty()) return literal_value(expected);
    if (!in_.next_is_type()) {
      if (in_.next_is_float_word()) return in_.as_float(in_.literal("a number"));
      return graph(depth + 1);
    }
    Type stated = type(0);
    if (in_.peek() != '{' && in_.peek() != '=' && !in_.next_is_quotable()) return stated;
    if (in_.next_is_quotable()) in_.quotable("a tensor's name");  // tensors in attributes have no use for it
    in_.accept('=');
    return tensor(stated);
  }

  Single literal_value(Kind expected) {
    const Literal literal = in_.literal("an attribute's value");
    if (literal.kind == Literal::Kind::string) return literal.text;
    if (literal.kind == Literal::Kind::real || expected == Kind::real) return in_.as_float(literal);
    return in_.as_int64(literal);
  }

  template <class T>
  static std::vector<T> unwrap(std::vector<Single>& values) {
    std::vector<T> list;
    for (auto& value : values) list.push_back(std::get<T>(std::move(value)));
    return list;
  }

  void store(std::string name, Kind kind, std::vector<Single> values, Attributes& attributes, std::vector<GraphDraft::Node::Subgraphs>* subgraphs) {
    switch (kind) {
      case Kind::integers: attributes[name] = unwrap<std::int64_t>(values); return;
      case Kind::reals: attributes[name] = unwrap<float>(values); return;
      case Kind::strings: attributes[name] = unwrap<std::string>(values); return;
      case Kind::tensors: attributes[name] = unwrap<TensorPtr>(values); return;
      case Kind::types: attributes[name] = unwrap<Type>(values); return;
      case Kind::integer: attributes[name] = std::get<std::int64_t>(values[0]); return;
      case Kind::real: attributes[name] = std::get<float>(values[0]); return;
      case Kind::string: attributes[name] = std::get<std::string>(std::move(values[0])); return;
      case Kind::tensor: attributes[name] = std::get<TensorPtr>(std::move(values[0])); return;
      case Kind::type: attributes[name] = std::get<Type>(std::move(values[0])); return;
      case Kind::graph:
      case Kind::graphs:
        if (!subgraphs) in_.fail_here("an attribute's default value can't be a graph");
        subgraphs->push_back({std::move(name), kind == Kind::graphs, unwrap<GraphDraft>(values)});
        return;
      case Kind::undefined: break;
    }
  }

  std::vector<Single> list_values(Kind& kind, int depth) {
    std::vector<Single> values;
    in_.expect('[', "before the list");
    if (kind != Kind::undefined && !is_list(kind)) in_.fail_here("the attribute is declared {}, its value is a list", kind_name(kind));
    if (in_.accept(']')) {
      if (kind == Kind::undefined) in_.fail_here("an empty list needs a declared type, as in \"axes: ints = []\"");
      return values;
    }
    do {
      values.push_back(single_value(element_kind(kind), depth));
      for (const auto& [name, list] : kind_names)
        if (kind == Kind::undefined && is_list(list) && element_kind(list) == kind_of(values[0])) kind = list;
    } while (in_.accept(','));
    in_.expect(']', "after the list");
    return values;
  }

  // After the name: (':' kind)? '=' value
  void attribute(std::string name, Attributes& attributes, std::vector<GraphDraft::Node::Subgraphs>* subgraphs, int depth) {
    Kind kind = Kind::undefined;
    if (in_.accept(':')) {
      const std::size_t at = in_.position();
      const std::string word = in_.identifier("an attribute type");
      for (const auto& [text, k] : kind_names)
        if (text == word) kind = k;
      if (kind == Kind::undefined) in_.fail_at(at, "\"{}\" is not an attribute type that can be read", word);
    }
    in_.expect('=', "after the attribute's name");
    if (in_.accept('@')) {
      attributes[std::move(name)] = AttributeReference{in_.quotable("the name of the function's attribute"), static_cast<int>(kind)};
      return;
    }
    std::vector<Single> values;
    if (in_.peek() == '[') {
      values = list_values(kind, depth);
    } else {
      if (is_list(kind)) in_.fail_here("the attribute is declared {}, expected '[', found {}", kind_name(kind), in_.found());
      values.push_back(single_value(kind, depth));
      kind = kind_of(values[0]);
    }
    store(std::move(name), kind, std::move(values), attributes, subgraphs);
  }

  void attribute_list(GraphDraft::Node& node, int depth) {
    std::set<std::string> seen;
    do {
      const std::size_t at = in_.position();
      std::string name = in_.quotable("an attribute's name");
      if (!seen.insert(name).second) in_.fail_at(at, "the attribute \"{}\" is given twice", name);
      attribute(std::move(name), node.attributes, &node.subgraphs, depth);
    } while (in_.accept(','));
    in_.expect('>', "after the attributes");
  }

  // ── nodes, graphs, functions ───────────────────────────────────────────────────────────────────────────────────────────

  // Names separated by commas; nothing before a comma is an omitted one.
  std::vector<std::string> name_list() {
    std::vector<std::string> names;
    while (in_.next_is_quotable() || in_.peek() == ',') {
      names.push_back(in_.peek() == ',' ? std::string() : in_.quotable("a name"));
      if (!in_.accept(',')) break;
    }
    return names;
  }

  OpName op_name() {
    std::string domain, type = in_.quotable("an operator");
    while (in_.accept('.')) {
      domain += (domain.empty() ? "" : ".") + type;
      type = in_.quotable("an operator");
    }
    const OpName op = make_op_name(domain, type);
    domains_.emplace(op.domain);
    return op;
  }

  GraphDraft::Node node(int depth) {
    GraphDraft::Node result;
    result.at = in_.position();
    if (in_.accept('[')) {
      if (in_.next_is_quotable()) result.name = in_.quotable("the node's name");
      in_.expect(']', "after the node's name");
    }
    result.outputs = name_list();
    in_.expect('=', "after the node's outputs");
    result.op = op_name();
    if (in_.accept(':')) result.overload = in_.quotable("an overload");
    const bool attributes_first = in_.accept('<');
    if (attributes_first) attribute_list(result, depth);
    in_.expect('(', "before the node's inputs");
    result.inputs = name_list();
    in_.expect(')', "after the node's inputs");
    if (!attributes_first && in_.accept('<')) attribute_list(result, depth);
    return result;
  }

  std::vector<GraphDraft::Node> node_list(int depth) {
    std::vector<GraphDraft::Node> nodes;
    in_.expect('{', "before the nodes");
    while (!in_.accept('}')) {
      if (in_.at_end()) in_.fail_here("expected a node or '}}', found the end of the text");
      nodes.push_back(node(depth));
    }
    return nodes;
  }

  GraphDraft graph(int depth) {
    if (depth > max_nesting) in_.fail_here("graphs are nested more than {} deep", max_nesting);
    GraphDraft draft;
    draft.name = in_.peek() == '(' && depth == 0 ? "main_graph" : in_.quotable("a graph");
    draft.inputs = value_list('(', ')', "graph's inputs", true);
    for (auto& input : draft.inputs)
      if (input.data) draft.values.push_back({.name = input.name, .data = std::exchange(input.data, nullptr), .at = input.at});
    if (!in_.accept_arrow()) in_.fail_here("expected \"=>\" after the graph's inputs, found {}", in_.found());
    draft.outputs = value_list('(', ')', "graph's outputs", false);
    if (in_.peek() == '<') {
      auto values = value_list('<', '>', "graph's values", true);
      std::move(values.begin(), values.end(), std::back_inserter(draft.values));
    }
    draft.nodes = node_list(depth);
    return draft;
  }

  Function function(const DraftOptions& options) {
    Function result;
    if (in_.accept('<')) function_header(result);
    result.name = in_.quotable("a function's name");
    if (in_.accept('<')) function_attributes(result);
    GraphDraft draft;
    draft.name = result.name;
    draft.inputs = value_list('(', ')', "function's inputs", false);
    if (!in_.accept_arrow()) in_.fail_here("expected \"=>\" after the function's inputs, found {}", in_.found());
    draft.outputs = value_list('(', ')', "function's outputs", false);
    if (in_.peek() == '<') draft.values = value_list('<', '>', "function's values", false);
    draft.nodes = node_list(0);
    build_graph(std::move(draft), *result.body, {.place = options.place});
    return result;
  }

  void function_attributes(Function& function) {
    do {
      std::string name = in_.quotable("an attribute's name");
      if (in_.peek() == ':' || in_.peek() == '=') attribute(std::move(name), function.attribute_defaults, nullptr, 0);
      else function.attributes.push_back(std::move(name));
    } while (in_.accept(','));
    in_.expect('>', "after the function's attributes");
  }

  TextCursor in_;
  bool has_opsets_ = false;
  std::set<std::string> domains_;  // used by nodes
};

}  // namespace

Model model_from_text(std::string_view text) { return TextParser(text).model(); }

}  // namespace mobius::ir

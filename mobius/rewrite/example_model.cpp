// A rule's left side as a graph.
#include <algorithm>
#include <array>
#include <charconv>

#include "mobius/base/error.hpp"
#include "mobius/ops/infer.hpp"
#include "mobius/rewrite/disprove.hpp"
#include "mobius/rewrite/operators.hpp"

namespace mobius::rewrite {

std::size_t Choices::pick(std::size_t n) {
  const auto at = options_.size();
  options_.push_back(n);
  return at < prefix_.size() ? prefix_[at] : 0;
}

bool Choices::next() {
  constexpr std::ptrdiff_t most_unusual = 2;
  if (std::ranges::count_if(prefix_, [](auto p) { return p != 0; }) < most_unusual)
    for (auto at = prefix_.size(); at < options_.size(); ++at)
      for (std::size_t other = 1; other < options_[at]; ++other) {
        auto more = prefix_;
        more.resize(at, 0);
        more.push_back(other);
        to_do_.push_back(std::move(more));
      }
  options_.clear();
  taken.clear();
  if (to_do_.empty()) return false;
  prefix_ = std::move(to_do_.front());
  to_do_.pop_front();
  return true;
}

namespace {

class Writer {
 public:
  Writer(const Rule& rule, const Example& example, Choices& choices, ir::DataType float_type)
      : rule_(rule), example_(example), choices_(choices), float_type_(float_type) {}

  ir::Model model() {
    auto* root = value(rule_.from[0].get(), rule_.from[0].output, float_type_);
    graph().add_output(root);
    for (std::size_t i = 1; i < rule_.from.size(); ++i) {
      const auto made = made_.find(rule_.from[i].get());
      if (made == made_.end()) continue;  // part of an alternative that was not taken
      auto* v = made->second[rule_.from[i].output];
      if (v != root && choices_.pick(2) == 0) graph().add_output(v);
    }
    drop_unused_results();
    name_results();
    model_.opset_imports = {{"", 24}, {"com.microsoft", 1}};
    return std::move(model_);
  }

 private:
  ir::Graph& graph() { return *model_.graph; }

  ir::Value* value(const PatNode* p, std::size_t output, ir::DataType dtype) {
    auto& made = made_[p];
    if (made.empty() || p->is_number()) made = make(*p, dtype);
    return made[p->kind == PatNode::Kind::op ? output : 0];
  }

  std::vector<ir::Value*> make(const PatNode& p, ir::DataType dtype) {
    switch (p.kind) {
      case PatNode::Kind::variable: return {variable(p)};
      case PatNode::Kind::literal: return {number(p.literal, dtype)};
      case PatNode::Kind::integers:
        return {graph().add_initializer(graph().unique_name("integers"), ir::make_tensor({static_cast<std::int64_t>(p.integers.size())}, p.integers))};
      case PatNode::Kind::scalar: return {number(as_number(attribute(p.name, p.scalar_kind)), dtype)};
      case PatNode::Kind::either: {
        const auto which = choices_.pick(p.args.size());
        choices_.taken.emplace_back(&p, which);
        return {value(p.args[which].node.get(), p.args[which].output, dtype)};
      }
      case PatNode::Kind::op: return op(p, dtype);
    }
    return {};
  }

  ir::Value* variable(const PatNode& p) {
    const auto told = example_.variables.find(p.name);
    if (told == example_.variables.end()) fail(ErrorKind::invalid_argument, "the example has no shape for variable '{}'", p.name);
    std::string_view text = told->second;
    if (text.starts_with("= ")) {
      const auto list = integers(p.name, text.substr(2));
      return graph().add_initializer(graph().unique_name(p.name), ir::make_tensor({static_cast<std::int64_t>(list.size())}, list));
    }
    const bool is_constant = text.starts_with("constant ");
    if (is_constant) text.remove_prefix(9);
    auto dtype = float_type_;
    if (const auto bracket = text.find('['); bracket != std::string_view::npos) {
      const auto named = ir::data_type_from_text(text.substr(0, bracket));
      if (!named) fail(ErrorKind::invalid_argument, "variable '{}' has no known type: {}", p.name, told->second);
      dtype = *named;
      text = text.substr(bracket + 1, text.size() - bracket - 2);
    }
    ir::Shape shape;
    while (!text.empty()) {
      const auto comma = std::min(text.find(','), text.size());
      auto dim = text.substr(0, comma);
      while (dim.starts_with(' ')) dim.remove_prefix(1);
      shape.push_back(ir::Dim::parse(dim));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    const auto name = graph().unique_name(p.name);
    if (!is_constant) return graph().add_input(name, {dtype, shape});
    const auto dims = ir::static_shape(shape);
    if (!dims) fail(ErrorKind::invalid_argument, "constant '{}' needs numbers as its shape", p.name);
    return graph().add_initializer(name, std::make_shared<ir::Placeholder>(std::vector{name}, dtype, *dims));
  }

  ir::Value* number(double v, ir::DataType dtype) {
    const bool as_tensor = number_may_be_tensor_ && choices_.pick(2) == 1;
    auto data = as_tensor ? ir::make_filled(dtype, {1}, v) : ir::make_scalar(dtype, v);
    return graph().add_initializer(graph().unique_name("number"), std::move(data));
  }

  static double as_number(const ir::Attribute& a) {
    const auto* f = std::get_if<float>(&a);
    return f ? static_cast<double>(*f) : static_cast<double>(std::get<std::int64_t>(a));
  }

  ir::Attribute attribute(const std::string& name, const ir::Attribute& kind) {
    const auto [it, fresh] = attributes_.try_emplace(name, kind);
    if (!fresh) return it->second;
    const auto told = example_.attributes.find(name);
    if (std::holds_alternative<float>(kind)) {
      // Powers of two: products and quotients with them are exact in any float type.
      constexpr std::array some = {0.5f, 4.0f, 0.25f, 2.0f};
      return it->second = told == example_.attributes.end() ? some[attributes_.size() % some.size()] : number_in<float>(name, told->second);
    }
    if (told == example_.attributes.end()) fail(ErrorKind::invalid_argument, "the example has no value for attribute '{}'", name);
    if (std::holds_alternative<std::int64_t>(kind)) return it->second = number_in<std::int64_t>(name, told->second);
    if (std::holds_alternative<std::string>(kind)) return it->second = told->second;
    return it->second = integers(name, told->second);
  }

  template <class T>
  static T number_in(const std::string& name, std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    T value{};
    const auto* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error != std::errc() || end != last)
      fail(ErrorKind::invalid_argument, "the example says '{}' for '{}', expected a number, or numbers: 4, 2, 2", text, name);
    return value;
  }

  static std::vector<std::int64_t> integers(const std::string& name, std::string_view text) {
    std::vector<std::int64_t> list;
    while (!text.empty()) {
      const auto comma = std::min(text.find(','), text.size());
      list.push_back(number_in<std::int64_t>(name, text.substr(0, comma)));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return list;
  }

  ir::Attributes attributes(const PatNode& p) {
    ir::Attributes out;
    for (const auto& [name, spec] : p.attrs) {
      const auto otherwise = spec.fallback ? spec.fallback : attribute_default(p.op, name);
      if (spec.equals) {
        if (!otherwise || !ir::equal(*otherwise, *spec.equals) || choices_.pick(2) == 0) out[name] = *spec.equals;
      } else if (!otherwise || attributes_.contains(spec.var) || choices_.pick(2) == 0) {
        out[name] = attribute(spec.var, spec.kind);
      } else {
        attributes_[spec.var] = *otherwise;
      }
    }
    return out;
  }

  std::vector<ir::Value*> op(const PatNode& p, ir::DataType dtype) {
    std::vector<ir::Value*> in(p.args.size(), nullptr);
    for (const bool numbers : {false, true})
      for (std::size_t i = 0; i < in.size(); ++i) {
        const auto* a = p.args[i].node.get();
        if (!a || a->is_number() != numbers) continue;
        number_may_be_tensor_ = is_broadcasting(p.op) && std::ranges::any_of(in, [](const auto* v) { return v && v->rank().value_or(0) > 0; });
        in[i] = value(a, p.args[i].output, numbers ? number_type(p.op, i, in, dtype) : dtype);
      }
    if (is_commutative(p.op) && in.size() == 2 && choices_.pick(2) == 1) std::swap(in[0], in[1]);
    auto* node = graph().append(p.op, in, attributes(p), p.results);
    node->name = graph().unique_name("layer/" + std::string(p.op.type));
    ops::TypeInference().infer(*node);
    return node->outputs();
  }

  void drop_unused_results() {
    for (auto* n : graph().nodes())
      for (auto i = n->outputs().size(); i-- > 1 && !n->is("Split");)
        if (n->output(i) && !n->output(i)->is_used()) n->drop_output(i);
  }

  void name_results() {
    for (std::size_t i = 0; i < graph().outputs().size(); ++i) graph().rename(graph().outputs()[i], "result" + std::to_string(i));
  }

  const Rule& rule_;
  const Example& example_;
  Choices& choices_;
  ir::DataType float_type_;
  ir::Model model_;
  bool number_may_be_tensor_ = false;
  std::map<const PatNode*, std::vector<ir::Value*>> made_;  // looked up only
  std::map<std::string, ir::Attribute> attributes_;
};

// ── graphs as text ───────────────────────────────────────────────────────────────────────────────────────────────────────

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Every `float` of the text, and casts to it, in another type. A text that names a narrow float type itself stays as it is.
std::string in_float_type(std::string text, ir::DataType to) {
  if (to == ir::DataType::float32 || text.find("float16") != std::string::npos || text.find("double") != std::string::npos) return text;
  const auto replace = [&](std::string_view word, std::string_view by) {
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size())) {
      const auto end = at + word.size();
      if ((at > 0 && (is_word(text[at - 1]) || text[at - 1] == '"')) || (end < text.size() && is_word(text[end]))) continue;
      text.replace(at, word.size(), by);
    }
  };
  replace("float", ir::text_name(to));
  for (const auto* cast : {"to = 1", "to=1", "to: int = 1"}) replace(cast, fmt::format("to = {}", static_cast<int>(to)));
  return text;
}

void swap_operands(ir::Graph& graph) {
  for (auto* n : graph.nodes()) {
    for (auto* g : n->subgraphs()) swap_operands(*g);
    if (!is_commutative(n->op) || n->inputs().size() != 2) continue;
    auto *a = n->input(0), *b = n->input(1);
    n->set_input(0, b);
    n->set_input(1, a);
  }
}

}  // namespace

ir::Model example_model(const Rule& rule, const Example& example, Choices& choices, ir::DataType float_type) {
  if (example.graph.empty()) return Writer(rule, example, choices, float_type).model();
  auto model = ir::model_from_text(in_float_type(example.graph, float_type));
  if (choices.pick(2) == 1) swap_operands(*model.graph);
  ops::TypeInference().infer(*model.graph);
  return model;
}

}  // namespace mobius::rewrite

// Random inputs: shapes from symbols, elements from the words of Contents.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>
#include <set>

#include "mobius/base/error.hpp"
#include "mobius/rewrite/disprove.hpp"

namespace mobius::rewrite {
namespace {

using ir::DataType;
using ops::Array;

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

double number(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  expect(error == std::errc() && end == text.data() + text.size(), "expected a number: " + std::string(text));
  return value;
}

class Draw {
 public:
  Draw(const Trials& trials, int round) : trials_(trials), round_(round), random_(trials.seed * 1000 + static_cast<std::uint64_t>(round)) {}

  ir::Dims dims(const ir::Value& value) {
    expect(value.shape().has_value(), "input " + value.name + " has no shape to draw from");
    ir::Dims out;
    for (const auto& d : *value.shape()) out.push_back(d.is_unknown() ? integer(1, 5) : evaluate(d));
    return out;
  }

  Array array(const std::string& name, DataType dtype, ir::Dims dims) {
    known_.insert(name);
    Array a{dtype, std::move(dims), {}};
    a.values.resize(static_cast<std::size_t>(ir::element_count(a.dims)));
    const auto word = trials_.contents.find(name);
    if (word == trials_.contents.end()) anything(a);
    else as_told(a, word->second);
    return a;
  }

  // A word for a name that is nowhere is a slip of the pen.
  void check_words() const {
    for (const auto& [name, word] : trials_.contents)
      expect(known_.contains(name) || symbols_.contains(name), "contents are given for " + name + ", which is no input, weight or symbol");
  }

 private:
  std::int64_t integer(std::int64_t from, std::int64_t to) { return std::uniform_int_distribution<std::int64_t>(from, to)(random_); }
  double real(double from, double to) { return std::uniform_real_distribution<double>(from, to)(random_); }

  std::int64_t symbol(const std::string& name) {
    const auto [it, fresh] = symbols_.try_emplace(name, 0);
    if (!fresh) return it->second;
    std::int64_t low = 1, high = 5;
    if (const auto told = trials_.contents.find(name); told != trials_.contents.end()) {
      const auto dots = told->second.find("..");
      expect(dots != std::string::npos, "symbol " + name + " wants a range, as in 0..4");
      low = evaluate(told->second.substr(0, dots));
      high = evaluate(told->second.substr(dots + 2)) - 1;
    }
    // Unequal sizes tell axes apart: in the first round each symbol is another number, as far as its range allows.
    if (round_ == 0) return it->second = std::min(high, std::max(low, static_cast<std::int64_t>(1 + symbols_.size())));
    return it->second = round_ == 1 ? low : integer(low, high);
  }

  std::int64_t evaluate(std::string_view expression) { return evaluate(ir::Dim::parse(trimmed(expression))); }
  std::int64_t evaluate(const ir::Dim& dim) {
    if (dim.is_static()) return dim.value();
    expect(dim.is_symbolic(), "an expression is empty");
    std::int64_t sum = 0;
    for (const auto& term : *dim.sum()) {
      auto product = term.coefficient;
      for (const auto& s : term.symbols) product *= symbol(s);
      sum += product;
    }
    return sum;
  }

  void anything(Array& a) {
    for (auto& v : a.values) v = ir::is_floating_point(a.dtype) ? real(-2, 2) : static_cast<double>(integer(0, 1));
  }

  void as_told(Array& a, const std::string& word) {
    const auto row = a.dims.empty() ? 1 : std::max<std::int64_t>(a.dims.back(), 1);
    if (word == "right padded" || word == "left padded") return padded(a, row, word.front() == 'r');
    if (const auto tilde = word.find('~'); tilde != std::string::npos) {
      const auto low = number(word.substr(0, tilde)), high = number(word.substr(tilde + 1));
      for (auto& v : a.values) v = real(low, high);
      return;
    }
    if (const auto comma = word.find(','); comma != std::string::npos) return listed(a, word);
    const auto dots = word.find("..");
    const auto low = evaluate(word.substr(0, dots));
    const auto end = dots == std::string::npos ? std::string() : word.substr(dots + 2);
    const auto high = end.empty() ? low : evaluate(end) - 1;
    std::int64_t i = 0;
    for (auto& v : a.values) {
      v = static_cast<double>(integer(low, high));
      if (dots != std::string::npos && end.empty()) v = static_cast<double>(low + i++ % row);
    }
  }

  void listed(Array& a, const std::string& word) {
    std::vector<double> list;
    for (std::size_t at = 0; at <= word.size();) {
      const auto comma = std::min(word.find(',', at), word.size());
      const auto element = trimmed(std::string_view(word).substr(at, comma - at));
      list.push_back(element == "-inf" ? -HUGE_VAL : static_cast<double>(evaluate(element)));
      at = comma + 1;
    }
    for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] = list[i % list.size()];
  }

  void padded(Array& a, std::int64_t row, bool right) {
    std::int64_t ones = 0, i = 0;
    for (auto& v : a.values) {
      if (i % row == 0) ones = integer(1, row);
      v = (right ? i % row : row - 1 - i % row) < ones ? 1 : 0;
      ++i;
    }
  }

  const Trials& trials_;
  int round_;
  std::mt19937_64 random_;
  std::map<std::string, std::int64_t> symbols_;
  std::set<std::string> known_;  // names drawn so far
};

void placeholders_of(const ir::TensorData& data, std::map<std::string, std::vector<const ir::Placeholder*>>& found) {
  if (const auto* p = dynamic_cast<const ir::Placeholder*>(&data)) found[p->name()].push_back(p);
  for (const auto& source : data.sources()) placeholders_of(*source, found);
}

}  // namespace

std::map<std::string, Array> random_inputs(std::initializer_list<const ir::Model*> models, const Trials& trials, int round) {
  Draw draw(trials, round);
  std::map<std::string, Array> inputs;
  const auto* first = *models.begin();
  for (const auto* v : first->graph->inputs()) inputs.emplace(v->name, draw.array(v->name, v->dtype(), draw.dims(*v)));

  std::map<std::string, std::vector<const ir::Placeholder*>> weights;
  for (const auto* m : models)
    for (const auto* v : m->graph->initializers()) placeholders_of(*v->data(), weights);
  for (const auto& [name, places] : weights) {
    const auto a = draw.array(name, places.front()->dtype(), places.front()->dims());
    for (const auto* p : places) p->bind(ir::make_tensor_of(p->dtype(), a.dims, a.values));
  }
  draw.check_words();
  return inputs;
}

}  // namespace mobius::rewrite

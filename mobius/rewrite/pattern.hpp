// Pat: an expression to look for, written with the same vocabulary as models (ops/vocabulary.hpp). Rule: what to put in its place.
//
//   //   s = x + skip
//   //   y = RMSNorm(s) · γ        ⟶        (y, s) = SkipRMSNorm(x, skip, γ)
//   auto [x, skip, gamma] = vars("x", "skip", "gamma");
//   auto eps = attr<float>("eps");
//   auto sum = x + skip;
//   auto norm = rms_norm(sum, gamma, {{"epsilon", eps}});
//   auto [y, mean, inv_std, s] = ms::skip_rms_norm(x, skip, gamma, {}, {{"epsilon", eps}});
//   return Rule{.name = "SkipNorm", .from = {norm, sum}, .to = {y, s}, .where = {same_shape(x, skip)}};
//
// What a pattern means
// - A variable matches any value; used twice, it must be the same value. The operands of Add, Mul, ... match in either order.
// - A number matches a scalar constant of that value (relative tolerance 1e-5, or what a narrow type makes of it), but not one that adds axes
//   to a result; a list of integers an int64 constant; {} an absent operand.
// - An attribute that is listed must be equal, or binds its variable; one that is not listed must be absent or have the operator's default.
// - Operands beyond those listed must be absent. a | b matches either.
#pragma once
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mobius/ops/vocabulary.hpp"

namespace mobius::rewrite {

struct PatNode;

// An attribute to bind, by name.
template <class V>
struct AttrVar {
  std::string name;
};
template <class V>
AttrVar<V> attr(std::string name) {
  return {std::move(name)};
}

struct AttrSpec {
  AttrSpec(std::int64_t v) : equals(ir::Attribute{v}) {}
  AttrSpec(int v) : equals(ir::Attribute{std::int64_t{v}}) {}
  AttrSpec(float v) : equals(ir::Attribute{v}) {}
  AttrSpec(std::string v) : equals(ir::Attribute{std::move(v)}) {}
  AttrSpec(const char* v) : equals(ir::Attribute{std::string(v)}) {}
  AttrSpec(std::vector<std::int64_t> v) : equals(ir::Attribute{std::move(v)}) {}
  template <class V>
  AttrSpec(const AttrVar<V>& v, std::type_identity_t<std::optional<V>> otherwise = {}) : var(v.name), kind(V{}) {
    if (otherwise) fallback = ir::Attribute{*otherwise};
  }
  std::optional<ir::Attribute> equals;
  std::string var;
  ir::Attribute kind;                     // of a variable: any value of its type
  std::optional<ir::Attribute> fallback;  // bound when the node leaves the attribute out
};

class Pat {
 public:
  struct Arg {
    Arg() = default;  // an absent operand
    Arg(const Pat& p);
    Arg(double literal);
    Arg(int literal) : Arg(static_cast<double>(literal)) {}
    Arg(std::vector<std::int64_t> integers);
    Arg(std::initializer_list<std::int64_t> integers) : Arg(std::vector<std::int64_t>(integers)) {}
    template <class V>
    Arg(const AttrVar<V>& scalar) : Arg(scalar_of(scalar.name, ir::Attribute{V{}})) {}  // a scalar constant, its value bound as an attribute
    std::shared_ptr<const PatNode> node;
    std::size_t output = 0;
  };
  struct AttrArgs : std::map<std::string, AttrSpec> {
    AttrArgs() = default;
    AttrArgs(std::initializer_list<std::pair<const std::string, AttrSpec>> l) : map(l) {}
  };

  static std::vector<Pat> apply(ir::OpName op, std::vector<Arg> args, AttrArgs attrs, std::size_t results);
  static Pat variable(std::string name);
  static Pat scalar_of(std::string attribute, ir::Attribute kind);

  const PatNode* get() const { return node.get(); }

  std::shared_ptr<const PatNode> node;
  std::size_t output = 0;
};
static_assert(Expr<Pat>);

struct PatNode {
  enum class Kind { variable, literal, integers, scalar, either, op };
  Kind kind = Kind::variable;
  std::string name = {};           // of a variable or scalar
  ir::Attribute scalar_kind = {};  // of a scalar: int64 or float
  double literal = 0;
  std::vector<std::int64_t> integers = {};
  ir::OpName op = {};
  std::vector<Pat::Arg> args = {};  // operands, or the alternatives
  std::map<std::string, AttrSpec> attrs = {};
  std::size_t results = 1;
  bool any_form = false;  // of an op: operands and attributes are left to the rule's conditions and `make`

  bool is_number() const { return kind == Kind::literal || kind == Kind::scalar; }
};

Pat operator|(const Pat& a, const Pat& b);

// An operator with whatever operands, attributes and results: for rules that read the node themselves. One pattern per possible result.
std::vector<Pat> any_form(ir::OpName op, std::size_t results);

template <class... Names>
auto vars(Names... names) {
  return std::array<Pat, sizeof...(Names)>{Pat::variable(names)...};
}

}  // namespace mobius::rewrite

// Expr: what an operator's function is generic over. The same vocabulary (vocabulary.hpp) emits nodes (T = nn::Tensor),
// describes nodes to look for (T = rewrite::Pat), and so never drifts apart.
//
// An Expr type T provides
//   T::Arg                      what may stand as an operand: a T, a parameter, a number, a list of integers; T::Arg{} is "absent"
//   T::AttrArgs                 attribute name -> value or pattern variable; built from {{"axis", 1}, ...}
//   T::apply(op, args, attrs, n)  n results
#pragma once
#include <array>
#include <concepts>
#include <utility>
#include <vector>

#include "mobius/ir/graph.hpp"

namespace mobius {

template <class T>
concept Expr = requires(ir::OpName op, std::vector<typename T::Arg> in, typename T::AttrArgs attrs) {
  { T::apply(op, in, attrs, std::size_t{1}) } -> std::same_as<std::vector<T>>;
};

template <class T>
using Arg = typename T::Arg;
template <class T>
using AttrArgs = typename T::AttrArgs;

namespace ops {

inline constexpr std::string_view onnx = "";
inline constexpr std::string_view microsoft = "com.microsoft";

template <Expr T>
T one(ir::OpName op, std::vector<Arg<T>> in, AttrArgs<T> attrs = {}) {
  return T::apply(op, std::move(in), std::move(attrs), 1)[0];
}

template <std::size_t N, Expr T>
std::array<T, N> many(ir::OpName op, std::vector<Arg<T>> in, AttrArgs<T> attrs = {}) {
  auto v = T::apply(op, std::move(in), std::move(attrs), N);
  return [&]<std::size_t... I>(std::index_sequence<I...>) { return std::array<T, N>{v[I]...}; }(std::make_index_sequence<N>{});
}

}  // namespace ops
}  // namespace mobius

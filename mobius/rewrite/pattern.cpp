// How patterns are put together.
#include "mobius/rewrite/pattern.hpp"

namespace mobius::rewrite {

Pat::Arg::Arg(const Pat& p) : node(p.node), output(p.output) {}
Pat::Arg::Arg(double literal) : node(std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::literal, .literal = literal})) {}
Pat::Arg::Arg(std::vector<std::int64_t> integers)
    : node(std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::integers, .integers = std::move(integers)})) {}

Pat Pat::variable(std::string name) {
  Pat p;
  p.node = std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::variable, .name = std::move(name)});
  return p;
}

Pat Pat::scalar_of(std::string attribute, ir::Attribute kind) {
  Pat p;
  p.node = std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::scalar, .name = std::move(attribute), .scalar_kind = std::move(kind)});
  return p;
}

std::vector<Pat> Pat::apply(ir::OpName op, std::vector<Arg> args, AttrArgs attrs, std::size_t results) {
  while (!args.empty() && !args.back().node) args.pop_back();
  const auto node =
      std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::op, .op = op, .args = std::move(args), .attrs = std::move(attrs), .results = results});
  std::vector<Pat> out(results);
  for (std::size_t i = 0; i < results; ++i) out[i].node = node, out[i].output = i;
  return out;
}

std::vector<Pat> any_form(ir::OpName op, std::size_t results) {
  const auto node = std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::op, .op = op, .results = results, .any_form = true});
  std::vector<Pat> out(results);
  for (std::size_t i = 0; i < results; ++i) out[i].node = node, out[i].output = i;
  return out;
}

Pat operator|(const Pat& a, const Pat& b) {
  Pat p;
  p.node = std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::either, .args = {a, b}});
  return p;
}

}  // namespace mobius::rewrite

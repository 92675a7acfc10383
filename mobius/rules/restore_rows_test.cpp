#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// Tokens in one list, as experts take them, and back.
std::string graph(const std::string& back, const std::string& x = "float[B,S,8] x", const std::string& ids = "int64[B,S] input_ids") {
  return "g (" + ids + ", " + x + ") => (y) <int64[2] flat = {-1, 8}, int64[2] half = {-1, 16}> { t = Reshape(x, flat) r = Relu(t) " + back + " }";
}
const std::string whole = "s = Shape(x) y = Reshape(r, s)";

const RuleExamples examples("RestoreRows",
                            {{.graph = graph(whole), .trials = {.contents = {{"input_ids", "0..9"}}}},
                             {.graph = graph(whole, "float[B,S,8] x", "int32[B,S] input_ids"), .trials = {.contents = {{"input_ids", "0..9"}}}}},
                            {{"Cast 1: left out", "the reference counts in integers of any type"},
                             {"Cast 1: attribute to changed", "the reference counts in integers of any type"}});

TEST(RestoreRows, NumbersThePlacesOfABatch) {
  expect_rewrite(eliminate_shape(), "webgpu", graph(whole), "Reshape Relu Cast Sub Add ReduceSum CumSum CumSum Add Gather");
  // Nothing is to be captured here.
  expect_unchanged(eliminate_shape(), "cpu", graph(whole), "");
}

TEST(RestoreRows, NotToOtherShapes) {
  expect_unchanged(eliminate_shape(), "webgpu", graph("s = Shape<start = 0, end = 2>(x) y = Reshape(x, s)", "float[B,S,1] x"), "attribute end is set");
  expect_unchanged(eliminate_shape(), "webgpu", graph("s = Shape(x) y = Reshape(r, s)", "float[B,S,2,4] x"), "rank");
  expect_unchanged(eliminate_shape(), "webgpu", graph(whole, "float[B,S,8] x", "int64[B,T] input_ids"), "no graph input has the batch's sizes");
  expect_unchanged(eliminate_shape(), "webgpu", graph(whole, "float[B,S,8] x", "float[B,S] input_ids"), "no graph input has the batch's sizes");
  expect_unchanged(eliminate_shape(), "webgpu",
                   graph("c = Concat<axis = 1>(r, r) u = Reshape(c, half) s = Shape(z) y = Reshape(u, s)", "float[B,S,8] x, float[B,S,4] z"),
                   "the rows have another width");
}

}  // namespace
}  // namespace mobius::rules

// ONNX's textual syntax, read and printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mobius/base/error.hpp"
#include "mobius/base/file.hpp"
#include "mobius/ir/model.hpp"

namespace mobius::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string parse_error(std::string_view text) {
  try {
    model_from_text(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::corrupt_file);
    return e.what();
  }
  return "no error";
}

const Node& only_node(const Model& model) { return *model.graph->first(); }

// testdata/onnx/printed.txt is also read by onnx.parser (see make_fixtures.py there); the reader's tests compare what it understood.
TEST(Text, PrintsWhatItReads) {
  const std::string text = read_text_file(fs::path(MOBIUS_TESTDATA) / "onnx/printed.txt");
  EXPECT_EQ(to_text(model_from_text(text)), text);
}

TEST(Text, ReadsAGraphAlone) {
  const Model model = model_from_text("g (float[n,2] x) => (y) { y = com.microsoft.Gelu(x) }");
  EXPECT_EQ(model.ir_version, 11);
  EXPECT_EQ(model.opset_imports, (std::map<std::string, std::int64_t, std::less<>>{{"", 24}, {"com.microsoft", 1}}));
  EXPECT_TRUE(verify(model).empty());
  EXPECT_EQ(to_text(*model.graph), "g (float[n,2] x) => (y) {\n   y = com.microsoft.Gelu (x)\n}\n");
  EXPECT_EQ(to_text(*model_from_text("() => () {}").graph), "main_graph () => () {\n}\n");
}

TEST(Text, KeepsOmittedInputsAndOutputs) {
  const Model model = model_from_text("g (float x, float z) => (y) { y, , = Op(x, , z, \"\") }");
  const Node& node = only_node(model);
  ASSERT_EQ(node.inputs().size(), 4u);
  EXPECT_EQ(node.inputs()[1], nullptr);
  EXPECT_EQ(node.inputs()[2]->name, "z");
  EXPECT_EQ(node.inputs()[3], nullptr);
  ASSERT_EQ(node.outputs().size(), 2u);
  EXPECT_EQ(node.outputs()[1], nullptr);
}

TEST(Text, InfersAttributeKinds) {
  const Model model = model_from_text(
      "g () => () { = Op<a=1, b=-2.5, c=\"s\", d=[1,2], e=[1.0,2], f=[\"x\"], g=float[1] {3}, h=int64[2], i: floats=[1,2], j=inf, k: int=@r>() }");
  const Attributes& a = only_node(model).attributes;
  EXPECT_EQ(std::get<std::int64_t>(a.at("a")), 1);
  EXPECT_EQ(std::get<float>(a.at("b")), -2.5f);
  EXPECT_EQ(std::get<std::string>(a.at("c")), "s");
  EXPECT_THAT(std::get<std::vector<std::int64_t>>(a.at("d")), ElementsAre(1, 2));
  EXPECT_THAT(std::get<std::vector<float>>(a.at("e")), ElementsAre(1.0f, 2.0f));
  EXPECT_THAT(std::get<std::vector<std::string>>(a.at("f")), ElementsAre("x"));
  EXPECT_EQ(std::get<TensorPtr>(a.at("g"))->dims(), Dims{1});
  EXPECT_EQ(std::get<Type>(a.at("h")).dtype, DataType::int64);
  EXPECT_THAT(std::get<std::vector<float>>(a.at("i")), ElementsAre(1.0f, 2.0f));
  EXPECT_EQ(std::get<float>(a.at("j")), std::numeric_limits<float>::infinity());
  EXPECT_EQ(std::get<AttributeReference>(a.at("k")), (AttributeReference{"r", 2}));
}

TEST(Text, SharesOuterValuesWithSubgraphs) {
  const Model model =
      model_from_text("g (bool c, float x) => (y) { y = If(c)<then_branch = t () => (a) { a = Neg(x) }, else_branch = e () => (a) { a = Neg(x) }> }");
  EXPECT_EQ(model.graph->inputs()[1]->uses().size(), 2u);
  EXPECT_EQ(only_node(model).subgraphs().size(), 2u);
  EXPECT_TRUE(verify(model).empty());
}

TEST(Text, RenamesInnerValuesThatShadow) {
  const Model model = model_from_text(
      "g (bool c, float x) => (y) { y = If(c)<then_branch = t () => (x) { x = Neg(x) x2 = Neg(x) }, else_branch = e () => (z) { z = Neg(x) }> z = Neg(x) }");
  EXPECT_THAT(to_text(model), HasSubstr("x_1 = Neg (x)\n      x2 = Neg (x_1)"));
  EXPECT_THAT(to_text(model), HasSubstr("z_1 = Neg (x)"));
  EXPECT_TRUE(verify(model).empty());
}

TEST(Text, SetsDataOfConstants) {
  const Model model =
      model_from_text("g () => () { a = Constant<value = float[2] {1,2}>() b = Constant<value_ints = [1,2,3]>() c = Constant<value_float = 2.0>() }");
  EXPECT_EQ(model.graph->find_value("a")->data()->dims(), Dims{2});
  EXPECT_EQ(as_integers(*model.graph->find_value("b")->data()), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(as_scalar(*model.graph->find_value("c")->data()), 2.0);
  EXPECT_EQ(model.graph->find_value("c")->dtype(), DataType::float32);
  EXPECT_FALSE(model.graph->find_value("a")->is_initializer());
}

TEST(Text, MakesPlaceholdersOfTypedNames) {
  const std::string text =
      "g (float[2,3] x) => (y)\n   <float[3,4] w,\n    float[1] b = {1},\n    float[4] v,\n    float[2,4] t>\n{\n   t = MatMul (x, w)\n   y = Add (t, v)\n}\n";
  const Model model = model_from_text(text);
  const auto* w = dynamic_cast<const Placeholder*>(model.graph->find_value("w")->data().get());
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->name(), "w");
  EXPECT_EQ(w->dims(), (Dims{3, 4}));
  EXPECT_EQ(model.graph->initializers().size(), 3u);
  EXPECT_EQ(to_text(*model.graph), text);
}

TEST(Text, ReadsHalfFloatsAsValuesOrBits) {
  const Model model = model_from_text("g () => () <float16[3] h = {1.5, 15360, -inf}, bfloat16[1] b = {1e0}> {}");
  EXPECT_EQ(as_doubles(*model.graph->find_value("h")->data()), (std::vector<double>{1.5, 1.0, -std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(as_doubles(*model.graph->find_value("b")->data()), (std::vector<double>{1.0}));
}

TEST(Text, PacksNarrowElements) {
  const Model model = model_from_text("g () => () <int4[3] a = {1,-2,3}, int4[3] b = {225,3}, uint2[5] c = {1,2,3,0,1}, int4[1] d = {-1}> {}");
  EXPECT_EQ(model.graph->find_value("a")->data()->bytes(), model.graph->find_value("b")->data()->bytes());
  EXPECT_EQ(model.graph->find_value("c")->data()->bytes(), (std::vector<std::byte>{std::byte{0x39}, std::byte{1}}));
}

TEST(Text, RoundsAndRefusesNumbers) {
  const Model model = model_from_text("g () => () <double[3] d = {1e-400, -0.0, 1e308}, float[2] f = {1e-60, 16777217}> {}");
  EXPECT_EQ(as_doubles(*model.graph->find_value("d")->data()), (std::vector<double>{0, 0, 1e308}));
  EXPECT_EQ(as_doubles(*model.graph->find_value("f")->data()), (std::vector<double>{0, 16777216}));
  EXPECT_THAT(parse_error("g () => () <double d = {1e400}> {}"), HasSubstr("column 25: 1e400 is outside the range of double"));
  EXPECT_THAT(parse_error("g () => () <float d = {1e39}> {}"), HasSubstr("1e39 is outside the range of float"));
  EXPECT_THAT(parse_error("g () => () <int8 d = {128}> {}"), HasSubstr("128 is outside the range -128 to 127"));
  EXPECT_THAT(parse_error("g () => () <int64 d = {9223372036854775808}> {}"), HasSubstr("outside the range of int64"));
}

TEST(Text, AbbreviatesWhenAsked) {
  const Model model =
      model_from_text("g () => (y) <float[4] big = {1,2,3,4}, float[2] small = {1,2}, float[4] t> { t = Neg(big) y = Add<k = int64[3] {1,2,3}>(t, small) }");
  const std::string text = to_text(*model.graph, {.max_elements = 2, .value_info = false});
  EXPECT_EQ(text, "g () => (y)\n   <float[4] big,\n    float[2] small = {1,2}>\n{\n   t = Neg (big)\n   y = Add <k: tensor = int64[3] {...}> (t, small)\n}\n");
}

TEST(Text, QuotesWhatIsNoIdentifier) {
  const Model model = model_from_text("\"a b\" (int64[\"n+1\"] \"float\") => (\"1\") { \"1\" = \"my-domain\".\"a::b\":\"x y\"<\"k-1\" = 1>(\"float\") }");
  const Node& node = only_node(model);
  EXPECT_EQ(node.op, (OpName{"my-domain", "a::b"}));
  EXPECT_EQ(node.overload, "x y");
  EXPECT_EQ(to_text(*model.graph),
            "\"a b\" (int64[\"n + 1\"] \"float\") => (\"1\") {\n   \"1\" = \"my-domain\".\"a::b\":\"x y\" <\"k-1\": int = 1> (\"float\")\n}\n");
}

// onnx.parser takes only plain words there.
TEST(Text, MakesSubgraphNamesPlain) {
  const Model model = model_from_text("g () => () { = Op<a: graph = \"my body\" () => () {}, b: graph = \"inf\" () => () {}, c: graph = \"\" () => () {}>() }");
  const std::string text = to_text(model);
  EXPECT_THAT(text, HasSubstr("a: graph = my_body ()"));
  EXPECT_THAT(text, HasSubstr("b: graph = _inf ()"));
  EXPECT_THAT(text, HasSubstr("c: graph = _ ()"));
}

TEST(Text, PrintsInitializersOfFunctionsAsConstants) {
  Model model = model_from_text("g () => () {} <domain: \"d\", opset_import: [\"\" : 24]> f (x) => (y) { y = Add(x, x) }");
  Function& f = model.functions[0];
  Value* w = f.body->add_initializer("w", make_scalar(DataType::float32, 2));
  f.body->first()->set_input(1, w);
  EXPECT_THAT(to_text(model), HasSubstr("w = Constant <value: tensor = float {2}> ()\n   y = Add (x, w)"));
}

TEST(Text, ErrorsHaveLineAndColumn) {
  EXPECT_EQ(parse_error("g (float x) => (y) {\n  y = Add(x, z)\n}"), "line 2, column 3: reads \"z\", which nothing defines");
  EXPECT_EQ(parse_error("g (float x) => (y) {\n  y = Add(x x)\n}"), "line 2, column 13: expected ')' after the node's inputs, found \"x\"");
  EXPECT_EQ(parse_error("g () => (y) {}"), "line 1, column 10: nothing defines the output \"y\"");
  EXPECT_EQ(parse_error("g (float x) -> (y) {}"), "line 1, column 13: expected \"=>\" after the graph's inputs, found '-'");
  EXPECT_EQ(parse_error("g () => () { a = Op() a = Op() }"), "line 1, column 23: \"a\" is defined twice");
  EXPECT_EQ(parse_error("g () => () { b = Op(a) a = Op() }"), "line 1, column 14: reads \"a\" before the node that produces it");
  EXPECT_EQ(parse_error("# only a comment"), "line 1, column 17: expected a graph, found the end of the text");
  EXPECT_EQ(parse_error("g () => () { a = Op(\"x"), "line 1, column 21: this string has no closing quote");
  EXPECT_EQ(parse_error("g () => () <float[2] w = {1}> {}"), "line 1, column 26: the tensor has 1 numbers, its dimensions say 2");
  EXPECT_EQ(parse_error("g () => () { = Op<a: int = 1.5>() }"), "line 1, column 28: the attribute is declared int, its value is float");
  EXPECT_EQ(parse_error("g () => () { = Op<a = []>() }"), "line 1, column 25: an empty list needs a declared type, as in \"axes: ints = []\"");
  EXPECT_EQ(parse_error("g () => () { = Op<a = 1, a = 2>() }"), "line 1, column 26: the attribute \"a\" is given twice");
  EXPECT_EQ(parse_error("g () => () { = Op<a = [1, \"x\"]>() }"), "line 1, column 27: the attribute is declared int, its value is string");
  EXPECT_EQ(parse_error("<ir_version: 11, colour: 3> g () => () {}"), "line 1, column 18: \"colour\" is not a key of a model's header");
  EXPECT_EQ(parse_error("g (int64 a) => () <float[1] a = {1}> {}"), "line 1, column 20: \"a\" is int64 as an input and float[1] as an initializer");
  EXPECT_EQ(parse_error("g (optional(seq(float)) a) => () <float[1] a = {1}> {}"),
            "line 1, column 35: \"a\" is optional(seq(float)) as an input and float[1] as an initializer");
  EXPECT_EQ(parse_error("g (opaque(x) a) => () {}"), "line 1, column 4: \"opaque\" is not a type");
}

TEST(Text, BoundsNestingAndSizes) {
  std::string types, graphs;
  for (int i = 0; i < 100'000; ++i) types += "seq(";
  for (int i = 0; i < 10'000; ++i) graphs += "g () => () { = Op<a = ";
  EXPECT_THAT(parse_error("g (" + types), HasSubstr("types are nested more than 48 deep"));
  EXPECT_THAT(parse_error(graphs), HasSubstr("graphs are nested more than 48 deep"));
  EXPECT_THAT(parse_error("g () => () <float[4611686018427387904,4611686018427387904] w = {}> {}"), HasSubstr("negative or too large"));
  EXPECT_THAT(parse_error("g () => () <float[-1] w = {}> {}"), HasSubstr("negative or too large"));
  EXPECT_THAT(parse_error("g () => () <float[1000000000] w = {1}> {}"), HasSubstr("the tensor has 1 numbers, its dimensions say 1000000000"));
}

TEST(Text, RefusesExternalData) {
  try {
    model_from_text("g () => () <float[2] w = [\"location\": \"x\"]> {}");
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_THAT(e.what(), HasSubstr("line 1, column 26: external data is not read from text"));
  }
}

}  // namespace
}  // namespace mobius::ir

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/nn/layers.hpp"

namespace mobius::nn {
namespace {

using ir::DataType;
using ::testing::HasSubstr;

struct Build {
  ir::Model model;
  Builder b{*model.graph, DataType::float16};
  Tensor x = b.input("x", DataType::float16, {"batch", "sequence_len", 8});
};

TEST(Tensor, OperatorsInferTypesAndNumbersTakeTheirDtype) {
  Build t;
  const auto y = t.x * 2.0 + 1.0;
  EXPECT_EQ(y.dtype(), DataType::float16);
  EXPECT_EQ(*y.value()->shape(), (ir::Shape{"batch", "sequence_len", 8}));
  for (const auto* c : t.model.graph->initializers()) EXPECT_EQ(c->dtype(), DataType::float16);
}

TEST(Tensor, EqualConstantsAreOneInitializer) {
  Build t;
  (void)(t.x * 2.0 + 2.0);
  (void)reshape(t.x, {0, -1});
  (void)reshape(t.x, {0, -1});
  EXPECT_EQ(t.model.graph->initializers().size(), 2u);
}

TEST(Tensor, AMistakeSurfacesWhereItIsMade) {
  Build t;
  t.b.scope = "model.layers.3.mlp";
  const Parameter w(Scope(DataType::float16) / "w", {5, 7});
  try {
    matmul(t.x, w);
    FAIL() << "shapes do not fit";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("model.layers.3.mlp/MatMul"));
  }
}

TEST(Scope, IsTheCheckpointsPath) {
  const auto s = Scope(DataType::float32) / "model" / "layers" / 12 / "mlp";
  EXPECT_EQ(s.path(), "model.layers.12.mlp");
}

TEST(Linear, KeepsTheCheckpointsLayout) {
  Build t;
  const Linear proj(Scope(DataType::float16) / "proj", 8, 4, true);
  const auto y = proj(t.x);
  EXPECT_EQ(*y.value()->shape(), (ir::Shape{"batch", "sequence_len", 4}));
  const auto* w = t.model.graph->find_value("proj.weight");
  ASSERT_TRUE(w);
  EXPECT_EQ(w->data()->dims(), (ir::Dims{4, 8}));
  EXPECT_TRUE(t.model.graph->find_value("proj.bias"));
  EXPECT_EQ(t.model.graph->first()->name, "proj/Transpose");
}

TEST(Scope, APartThatMayBeLeftOutGivesASecondName) {
  const auto body = (Scope(DataType::float32) / "transformer").or_left_out();
  const Parameter w(body / "h" / 0 / "weight", {2}, {"tied.weight"});
  EXPECT_EQ(w.name(), "transformer.h.0.weight");
  const auto& leaf = dynamic_cast<const ir::Placeholder&>(*w.data());
  EXPECT_EQ(leaf.names(), (std::vector<std::string>{"transformer.h.0.weight", "tied.weight", "h.0.weight"}));
}

std::vector<double> bound(const Parameter& part, const Parameter& whole) {
  std::vector<float> values(static_cast<std::size_t>(ir::element_count(whole.dims())));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  dynamic_cast<const ir::Placeholder&>(*whole.data()).bind(ir::make_tensor(whole.dims(), values));
  return *ir::as_doubles(*part.data());
}

TEST(Parameter, BlocksAndColumnsAreCutWhereTheyLie) {
  const Parameter w(Scope(DataType::float32) / "qkv", {6, 2});
  const auto blocks = w.blocks("k", 2, {2, 0});
  EXPECT_EQ(blocks.dims(), (ir::Dims{4, 2}));
  EXPECT_EQ(bound(blocks, w), (std::vector<double>{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(bound(w.columns("v", 1, 2), w), (std::vector<double>{1, 3, 5, 7, 9, 11}));
  const Parameter bias(Scope(DataType::float32) / "bias", {6});
  EXPECT_EQ(bound(bias.blocks("b", 3, {1, 0}), bias), (std::vector<double>{3, 4, 5, 0, 1, 2}));
}

TEST(Conv1D, KeepsInByOutAndIsCutByColumns) {
  Build t;
  const Conv1D c_attn(Scope(DataType::float16) / "c_attn", 8, 12);
  const auto y = c_attn.part("key", 4, 8)(t.x);
  EXPECT_EQ(*y.value()->shape(), (ir::Shape{"batch", "sequence_len", 4}));
  EXPECT_EQ(t.model.graph->first()->op.type, "MatMul");  // no Transpose
  ASSERT_TRUE(t.model.graph->find_value("c_attn.key.weight"));
  EXPECT_EQ(t.model.graph->find_value("c_attn.key.weight")->data()->dims(), (ir::Dims{8, 4}));
}

TEST(LayerNorm, HasWhatItsAffineSays) {
  for (const auto affine : {LayerNorm::Affine::full, LayerNorm::Affine::weight_only, LayerNorm::Affine::none}) {
    Build t;
    LayerNorm(Scope(DataType::float16) / "ln", 8, 1e-5, affine)(t.x);
    EXPECT_EQ(t.model.graph->initializers().size(), affine == LayerNorm::Affine::full ? 2u : 1u);
    EXPECT_EQ(t.model.graph->find_value("ln.weight") == nullptr, affine == LayerNorm::Affine::none);
  }
}

TEST(Parameter, IsOneInitializerHoweverOftenItIsUsed) {
  Build t;
  const RMSNorm norm(Scope(DataType::float16) / "norm", 8, 1e-6);
  norm(norm(t.x));
  EXPECT_EQ(t.model.graph->initializers().size(), 1u);
}

TEST(Parameter, PlusAddsBeforeTheWeightIsRounded) {
  const Scope s(DataType::float16);
  const auto w = Parameter(s / "norm", {1}).plus(1);
  EXPECT_EQ(w.dtype(), DataType::float16);
  const std::vector<float> value{0.00048828125f};  // half a unit of float16 at 1: added in float16 it would be lost in another way
  const auto* leaf = dynamic_cast<const ir::Placeholder*>(w.data()->sources()[0]->sources().empty() ? nullptr : w.data()->sources()[0]->sources()[0].get());
  ASSERT_TRUE(leaf);
  EXPECT_EQ(leaf->dtype(), DataType::float32);
  leaf->bind(ir::make_tensor({1}, value));
  EXPECT_EQ(ir::as_scalar(*w.data()), 1.0);
}

TEST(Activation, AnUnknownOneIsRefusedByName) {
  Build t;
  for (const auto* known : {"silu", "gelu", "gelu_pytorch_tanh", "relu", "quick_gelu"}) EXPECT_EQ(activation(known, t.x).dtype(), DataType::float16);
  try {
    activation("snake", t.x);
    FAIL() << "unknown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_THAT(e.what(), HasSubstr("unknown activation 'snake'; known: silu"));
  }
}

TEST(Activation, OneFormHasSeveralNames) {
  const auto text = [](std::string_view name) {
    Build t;
    t.b.output("y", activation(name, t.x));
    return ir::to_text(t.model);
  };
  EXPECT_EQ(text("gelu_python"), text("gelu"));
  for (const auto* name : {"gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh"}) EXPECT_EQ(text(name), text("gelu_pytorch_tanh"));
  EXPECT_NE(text("gelu"), text("gelu_pytorch_tanh"));
}

TEST(Builder, AnOutputIsANodesOwnResult) {
  Build t;
  t.b.output("y", t.x);
  EXPECT_EQ(t.model.graph->outputs()[0]->name, "y");
  EXPECT_TRUE(t.model.graph->outputs()[0]->producer());
}

}  // namespace
}  // namespace mobius::nn

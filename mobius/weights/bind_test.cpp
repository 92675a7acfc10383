// Binding of parameters to checkpoint tensors, and what it says when they don't fit.
#include "mobius/weights/bind.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/ir/recipe.hpp"

namespace mobius::weights {
namespace {

using ir::DataType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Stored {
  std::string name, dtype;
  ir::Dims dims;
};

// Writes a safetensors file in which all weights are zero, but for the last byte where `ends_otherwise`.
Checkpoint checkpoint_of(const std::vector<Stored>& tensors, bool ends_otherwise = false) {
  std::string header = "{";
  std::uint64_t end = 0;
  for (const auto& t : tensors) {
    const std::uint64_t size = static_cast<std::uint64_t>(ir::element_count(t.dims)) * (t.dtype == "F32" || t.dtype == "I32" ? 4
                                                                                        : t.dtype == "F8_E4M3"               ? 1
                                                                                                                             : 2);
    header += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", header.size() > 1 ? "," : "", t.name, t.dtype,
                          fmt::join(t.dims, ","), end, end + size);
    end += size;
  }
  header += "}";
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 255);
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path path = fs::path(testing::TempDir()) / fmt::format("bind_{}.safetensors", test->name());
  std::string data(end, '\0');
  if (ends_otherwise) data.back() = 0x40;
  write_text_file(path, bytes + header + data);
  return Checkpoint::open(path);
}

std::shared_ptr<ir::Placeholder> weight(std::vector<std::string> names, ir::Dims dims, DataType dtype = DataType::float32) {
  return std::make_shared<ir::Placeholder>(std::move(names), dtype, std::move(dims));
}

// A model whose initializers are these tensors.
ir::Model model_of(const std::vector<ir::TensorPtr>& tensors) {
  ir::Model model;
  for (std::size_t i = 0; i < tensors.size(); ++i) model.graph->add_initializer(fmt::format("t{}", i), tensors[i]);
  return model;
}

std::string error_of(ir::Model& model, const Checkpoint& checkpoint, const BindOptions& options = {}) {
  try {
    bind_weights({&model}, checkpoint, options);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    return e.what();
  }
  return "no error";
}

TEST(BindWeights, BindsEachPlaceholderToItsTensor) {
  const auto checkpoint = checkpoint_of({{"a.weight", "BF16", {2, 3}}, {"b.weight", "F32", {4}}});
  const auto a = weight({"a.weight"}, {2, 3}), b = weight({"b.weight"}, {4}, DataType::float16);
  auto model = model_of({a, ir::transpose(b, {0})});
  EXPECT_EQ(bind_weights({&model}, checkpoint).bound, 2u);
  EXPECT_TRUE(a->is_bound());
  EXPECT_TRUE(b->is_bound());
  EXPECT_EQ(a->bytes(), std::vector<std::byte>(24));
  EXPECT_EQ(b->bytes(), std::vector<std::byte>(8));
}

TEST(BindWeights, FindsThePlaceholdersOfRecipesOnce) {
  const auto qkv = weight({"qkv.weight"}, {6, 2});
  const auto up = weight({"up.weight"}, {4, 2});
  const auto model = model_of({ir::slice(qkv, 0, 0, 2), ir::slice(qkv, 0, 2, 6), ir::concat({up, qkv}, 0)});
  EXPECT_THAT(placeholders(model), ElementsAre(qkv.get(), up.get()));
}

TEST(BindWeights, LooksIntoSubgraphs) {
  const auto inner = weight({"inner.weight"}, {2});
  ir::Model model;
  auto* condition = model.graph->add_input("c", {DataType::boolean, ir::Shape{}});
  auto body = std::make_shared<ir::Graph>();
  body->add_output(body->add_initializer("w", inner));
  model.graph->append({"", "If"}, {condition}, {{"then_branch", body}, {"else_branch", body}});
  EXPECT_THAT(placeholders(model), ElementsAre(inner.get()));
}

TEST(BindWeights, TakesATiedWeightUnderEitherName) {
  const std::vector<std::string> names = {"embed.weight", "lm_head.weight"};
  for (const auto& stored : names) {
    const auto tied = weight(names, {3, 2});
    auto model = model_of({tied});
    EXPECT_EQ(bind_weights({&model}, checkpoint_of({{stored, "F32", {3, 2}}})).bound, 1u) << stored;
    EXPECT_TRUE(tied->is_bound());
  }
}

TEST(BindWeights, AWeightThatMayBeLeftOutHasAValueOfItsOwn) {
  const auto rates = weight({"rates"}, {2}), scale = weight({"scale"}, {1});
  auto model = model_of({rates, scale});
  const BindOptions options{.otherwise = [](const ir::Placeholder& p) { return p.name() == "rates" ? ir::make_filled(DataType::float32, {2}, 3) : nullptr; }};
  EXPECT_EQ(bind_weights({&model}, checkpoint_of({{"scale", "F32", {1}}}), options).bound, 2u);
  EXPECT_EQ(ir::as_doubles(*rates), (std::vector<double>{3, 3}));
  EXPECT_THAT(error_of(model, checkpoint_of({{"rates", "F32", {2}}}), options), HasSubstr("scale is not in"));
  EXPECT_EQ(ir::as_doubles(*rates), (std::vector<double>{0, 0})) << "what is stored comes first";
}

TEST(BindWeights, BothNamesOfATiedWeightCountAsUsed) {
  auto model = model_of({weight({"embed.weight", "lm_head.weight"}, {3, 2})});
  EXPECT_EQ(error_of(model, checkpoint_of({{"embed.weight", "F32", {3, 2}}, {"lm_head.weight", "F32", {3, 2}}})), "no error");
}

TEST(BindWeights, BothNamesOfATiedWeightMustHoldTheSame) {
  const auto tied = [] { return model_of({weight({"embed.weight", "lm_head.weight"}, {1000, 500})}); };
  auto model = tied();
  const std::vector<Stored> both = {{"embed.weight", "F32", {1000, 500}}, {"lm_head.weight", "F32", {1000, 500}}};
  EXPECT_EQ(error_of(model, checkpoint_of(both)), "no error");
  EXPECT_THAT(error_of(model, checkpoint_of(both, true)), HasSubstr("lm_head.weight differs from embed.weight"));
  // Equal once converted, and of another shape.
  EXPECT_EQ(error_of(model, checkpoint_of({both[0], {"lm_head.weight", "F16", {1000, 500}}})), "no error");
  EXPECT_THAT(error_of(model, checkpoint_of({both[0], {"lm_head.weight", "F16", {1000, 500}}}, true)), HasSubstr("differs"));
  EXPECT_THAT(error_of(model, checkpoint_of({both[0], {"lm_head.weight", "F32", {999, 500}}})), HasSubstr("differs"));

  auto chosen = tied();
  const auto report = bind_weights({&chosen}, checkpoint_of(both, true), {.ignore_extra = {"lm_head.weight"}});
  EXPECT_THAT(report.ignored, ElementsAre("lm_head.weight"));
}

TEST(BindWeights, NamesAMissingTensor) {
  auto model = model_of({weight({"a.weight"}, {2}), weight({"layers.3.up.weight"}, {2})});
  EXPECT_EQ(error_of(model, checkpoint_of({{"a.weight", "F32", {2}}})), "layers.3.up.weight is not in bind_NamesAMissingTensor.safetensors");
}

TEST(BindWeights, ANameWithItsStartLeftOutIsFoundAndNotTold) {
  auto model = model_of({weight({"model.up.weight", "head.weight", "up.weight"}, {2})});
  EXPECT_EQ(bind_weights({&model}, checkpoint_of({{"up.weight", "F32", {2}}})).bound, 1u);
  EXPECT_THAT(error_of(model, checkpoint_of({{"down.weight", "F32", {2}}})), HasSubstr("model.up.weight or head.weight is not in"));
}

TEST(BindWeights, NamesBothShapes) {
  auto model = model_of({weight({"a.weight"}, {2, 3})});
  EXPECT_EQ(error_of(model, checkpoint_of({{"a.weight", "F32", {3, 2}}})), "a.weight is [3, 2], expected [2, 3] (bind_NamesBothShapes.safetensors)");
}

TEST(BindWeights, RefusesDtypesThatAreNoWeights) {
  for (const char* dtype : {"I32", "F8_E4M3"}) {
    auto model = model_of({weight({"a.weight"}, {2})});
    EXPECT_THAT(error_of(model, checkpoint_of({{"a.weight", dtype, {2}}})), HasSubstr("expected f32, f16 or bf16")) << dtype;
  }
}

TEST(BindWeights, NamesAnExtraTensor) {
  auto model = model_of({weight({"a.weight"}, {2})});
  EXPECT_EQ(error_of(model, checkpoint_of({{"a.weight", "F32", {2}}, {"b.phase", "F32", {2}}})),
            "b.phase is in the checkpoint but unused (ignore_extra GLOB to allow it)");
}

TEST(BindWeights, ExcusesExtrasByGlob) {
  const auto checkpoint = checkpoint_of({{"a.weight", "F32", {2}}, {"l.0.inv_freq", "F32", {2}}, {"mtp.0.x", "F32", {2}}});
  auto model = model_of({weight({"a.weight"}, {2})});
  const auto report = bind_weights({&model}, checkpoint, {.ignorable = {"*.inv_freq"}, .ignore_extra = {"mtp.*"}});
  EXPECT_THAT(report.ignored, ElementsAre("l.0.inv_freq", "mtp.0.x"));
}

TEST(BindWeights, NamesAllFindingsAtOnceAndEachOnce) {
  const auto fused = weight({"qkv.weight"}, {6, 2});
  auto model = model_of({ir::slice(fused, 0, 0, 2), weight({"qkv.weight"}, {6, 2}), weight({"a.weight"}, {2}), weight({"b.weight"}, {2})});
  const auto error = error_of(model, checkpoint_of({{"a.weight", "F32", {3}}, {"c.weight", "F32", {2}}}));
  EXPECT_THAT(error, HasSubstr("does not fit the model in 4 places (ignore_extra GLOB to allow unused tensors):\n"));
  for (const char* name : {"qkv.weight is not in", "a.weight is [3], expected [2]", "b.weight is not in", "c.weight is in the checkpoint but unused"}) {
    EXPECT_THAT(error, HasSubstr(name));
  }
}

TEST(BindWeights, SeveralModelsShareACheckpoint) {
  const auto checkpoint = checkpoint_of({{"a.weight", "F32", {2}}, {"b.weight", "F32", {2}}});
  auto encoder = model_of({weight({"a.weight"}, {2})}), decoder = model_of({weight({"b.weight"}, {2}), weight({"a.weight"}, {2})});
  EXPECT_EQ(bind_weights({&encoder, &decoder}, checkpoint).bound, 3u);
}

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches_glob("model.layers.0.rotary_emb.inv_freq", "*.rotary_emb.inv_freq"));
  EXPECT_TRUE(matches_glob("abc", "a?c"));
  EXPECT_TRUE(matches_glob("abc", "*"));
  EXPECT_TRUE(matches_glob("", "**"));
  EXPECT_TRUE(matches_glob("mississippi", "m*issip*i"));
  EXPECT_TRUE(matches_glob("a.b.c", "a*c"));
  EXPECT_FALSE(matches_glob("abc", "ab"));
  EXPECT_FALSE(matches_glob("abc", "?"));
  EXPECT_FALSE(matches_glob("ab", "abc"));
  EXPECT_FALSE(matches_glob("model.x.weights", "*.weight"));
  // Backtracking stays linear in each star.
  EXPECT_FALSE(matches_glob(std::string(5000, 'a'), "*a*a*a*a*a*a*a*a*b"));
}

}  // namespace
}  // namespace mobius::weights

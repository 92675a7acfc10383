// Function bodies against the operators they stand for: on the fixtures, and in forms that no kernel runs.
#include "mobius/ops/functions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mobius/base/error.hpp"
#include "mobius/ops/fixtures.hpp"
#include "mobius/ops/infer.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;

// The first version of ai.onnx that has an operator, where that is above 18.
std::int64_t since(std::string_view type) {
  static const std::map<std::string, std::int64_t, std::less<>> versions{{"Attention", 23}, {"RMSNormalization", 23}, {"RotaryEmbedding", 23}, {"Swish", 24}, {"Gelu", 20}};
  auto found = versions.find(type);
  return found == versions.end() ? 18 : found->second;
}

void expect_plain(const ir::Graph& body, std::int64_t opset) {
  for (const ir::Node* node : body.nodes()) {
    EXPECT_EQ(node->op.domain, "");
    EXPECT_LE(since(node->op.type), opset) << node->op.type;
    for (const ir::Graph* graph : node->subgraphs()) expect_plain(*graph, opset);
  }
}

// The node of a one-node model, typed.
ir::Node* typed_node(ir::Model& model) {
  TypeInference().infer(*model.graph);
  return model.graph->last();
}

class FunctionTopic : public testing::TestWithParam<std::string> {};

TEST_P(FunctionTopic, bodies_give_the_operators_results) {
  std::size_t bodies = 0;
  for (const auto& c : fixtures::read(GetParam())) {
    for (std::int64_t opset : {24, 22, 18}) {
      SCOPED_TRACE(c.name + " at opset " + std::to_string(opset));
      try {
        auto model = ir::model_from_text(c.model);
        auto function = function_body(*typed_node(model), opset);
        if (!function) continue;
        ++bodies;
        expect_plain(*function->body, opset);
        EXPECT_EQ(function->opset_imports.at(""), opset);
        model.functions.push_back(std::move(*function));
        EXPECT_THAT(ir::verify(model), testing::IsEmpty());
        auto results = interpret(*model.graph, c.inputs, &model.functions, true);
        for (const auto& [name, want] : c.outputs) {
          if (!want) continue;
          ASSERT_TRUE(results.contains(name)) << name;
          // Scores that the kernel leaves at 0, or that differ before the softmax only, are not part of a body.
          EXPECT_EQ(fixtures::difference(results.at(name), *want, 1e-5, c.rows), "") << name;
        }
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_GT(bodies, 0U);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, FunctionTopic, testing::Values("math", "linear", "norms", "attention", "gqa", "mha", "experts"),
                         [](const auto& topic) { return topic.param; });

}  // namespace
}  // namespace mobius::ops

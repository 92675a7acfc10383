// The reference interpreter against ONNX Runtime's values, and its own rules: scopes, functions, errors.
#include "mobius/ops/interpreter.hpp"

#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/ops/fixtures.hpp"

namespace mobius::ops {
namespace {

class ReferenceTopic : public testing::TestWithParam<std::string> {};

TEST_P(ReferenceTopic, agrees_with_onnx_runtime) {
  auto cases = fixtures::read(GetParam());
  EXPECT_GT(cases.size(), 5U);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    try {
      auto model = ir::model_from_text(c.model);
      auto results = interpret(*model.graph, c.inputs);
      for (const auto& [name, want] : c.outputs) {
        ASSERT_TRUE(results.contains(name)) << name;
        if (want) {
          EXPECT_EQ(fixtures::difference(results.at(name), *want, 1e-5, c.rows), "") << name;
        }
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ReferenceTopic, testing::ValuesIn(fixtures::topics()), [](const auto& topic) { return topic.param; });

}  // namespace
}  // namespace mobius::ops

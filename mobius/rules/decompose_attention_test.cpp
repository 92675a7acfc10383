#include "mobius/rules/rule_test.hpp"

namespace mobius::rules {
namespace {

// "softmax", and whether grouped heads take the longer way.
void expect_primitives(const std::string& text, const Setup& setup = {}) {
  const auto r = rewritten(decompose_attention(), "qnn", text, setup);
  EXPECT_EQ(r.report.applied, 1u) << r.report.nearest_miss;
  EXPECT_THAT(ops_of(*r.model.graph), AllOf(testing::HasSubstr("Softmax"), testing::Not(testing::HasSubstr("Attention"))));
  EXPECT_EQ(rewrite::difference(r.original, r.model, setup.trials).value_or(""), "") << ir::to_text(r.model);
  for (const auto* o : r.model.graph->outputs()) EXPECT_EQ(ir::to_string(o->type), ir::to_string(r.original.graph->find_value(o->name)->type));
}

const std::string cache = "float[B,S,16] q, float[B,S,8] k, float[B,S,8] v, float[B,2,P,4] pk, float[B,2,P,4] pv";

std::string cached(const char* attributes, const char* type_of_mask = nullptr) {
  return fmt::format(
      "g ({0}{1}) => (float[B,S,16] y, float[B,2,\"P + S\",4] a, float[B,2,\"P + S\",4] b) {{"
      " y, a, b = Attention<q_num_heads = 4, kv_num_heads = 2{2}>(q, k, v, {3}, pk, pv) }}",
      cache, type_of_mask ? fmt::format(", {}[B,1,S,\"P + S\"] m", type_of_mask) : "", attributes, type_of_mask ? "m" : "\"\"");
}
std::string rotated(const char* x, const char* attributes, int columns = 4) {
  return fmt::format("g ({0} x, float[9,{2}] c, float[9,{2}] s, int64[B,S] p) => ({0} y) {{ y = RotaryEmbedding<{1}>(x, c, s, p) }}", x, attributes, columns);
}
const rewrite::Trials any_positions{.contents = {{"p", "0..9"}}};
const RuleExamples examples[] = {
    {"DecomposeAttention",
     {{.graph = cached("", "bool")},
      {.graph = cached(", scale = 0.125, softcap = 5.0", "bool")},
      {.graph = cached("", "float")},
      {.graph = "g (float[B,4,S,8] q, float[B,4,T,8] k, float[B,4,T,8] v, bool[B,1,S,T] seen) => (float[B,4,S,8] y)"
                " <float nothing = {0}, float hidden = {-inf}> { m = Where(seen, nothing, hidden) y = Attention<scale = 0.5>(q, k, v, m) }"},
      {.graph = cached(", is_causal = 1")},
      {.graph = "g (float[B,4,S,16] q, float[B,2,T,16] k, float[B,2,T,6] v) => (float[B,4,S,6] y) { y = Attention(q, k, v) }"},
      {.graph = "g (float[B,4,S,8] q, float[B,4,T,8] k, float[B,4,T,8] v) => (float[B,4,S,8] y) { y = Attention<scale = 0.5>(q, k, v) }"}},
     {{"Squeeze 1: left out", "a size with one element is broadcast like a scalar"},
      {"Squeeze 1: operand 1 left out", "there is one axis only"},
      {"Squeeze 2: left out", "a size with one element is broadcast like a scalar"},
      {"Squeeze 2: operand 1 left out", "there is one axis only"}}},
    {"DecomposeRotaryEmbedding",
     {{.graph = rotated("float[B,S,16]", "num_heads = 2"), .trials = any_positions},
      {.graph = rotated("float[B,2,S,8]", "interleaved = 1"), .trials = any_positions},
      {.graph = rotated("float[B,S,16]", "num_heads = 2, rotary_embedding_dim = 4", 2), .trials = any_positions},
      {.graph = "g (float[B,S,16] x, float[B,S,4] c, float[B,S,4] s) => (float[B,S,16] y) { y = RotaryEmbedding<num_heads = 2>(x, c, s) }"}},
     {{"Split 1: attribute num_outputs left out", "the reference counts the outputs"}}}};

TEST(DecomposeAttention, AsOurDecodersHaveIt) {
  expect_primitives("g (" + cache +
                    ", bool[B,1,S,\"P + S\"] m) => (float[B,S,16] y, float[B,2,\"P + S\",4] a, float[B,2,\"P + S\",4] b) {"
                    " y, a, b = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v, m, pk, pv) }");
  expect_primitives("g (" + cache +
                    ", bool[B,1,S,\"P + S\"] m) => (float[B,S,16] y, float[B,2,\"P + S\",4] a, float[B,2,\"P + S\",4] b) {"
                    " y, a, b = Attention<q_num_heads = 4, kv_num_heads = 2, scale = 0.125, softcap = 5.0>(q, k, v, m, pk, pv) }");
}

TEST(DecomposeAttention, FloatMasksAndCausalOnes) {
  expect_primitives("g (" + cache +
                    ", float[B,1,S,\"P + S\"] m) => (float[B,S,16] y, float[B,2,\"P + S\",4] a, float[B,2,\"P + S\",4] b) {"
                    " y, a, b = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v, m, pk, pv) }");
  expect_primitives("g (" + cache +
                    ") => (float[B,S,16] y, float[B,2,\"P + S\",4] a, float[B,2,\"P + S\",4] b) {"
                    " y, a, b = Attention<q_num_heads = 4, kv_num_heads = 2, is_causal = 1>(q, k, v, \"\", pk, pv) }");
}

TEST(DecomposeAttention, WithoutCacheAndInFourDimensions) {
  expect_primitives("g (float[B,S,16] q, float[B,T,16] k, float[B,T,16] v) => (float[B,S,16] y) { y = Attention<q_num_heads = 4, kv_num_heads = 4>(q, k, v) }");
  expect_primitives("g (float[B,4,S,16] q, float[B,2,T,16] k, float[B,2,T,6] v) => (float[B,4,S,6] y) { y = Attention(q, k, v) }");
}

TEST(DecomposeAttention, OneNodePerThingThatIsDone) {
  expect_rewrite(decompose_attention(), "qnn",
                 "g (float[B,4,S,8] q, float[B,4,T,8] k, float[B,4,T,8] v) => (float[B,4,S,8] y) { y = Attention<scale = 0.5>(q, k, v) }",
                 "Mul Transpose MatMul Softmax MatMul");
}

TEST(DecomposeAttention, NotWhereTheEpHasIt) {
  expect_unchanged(decompose_attention(), "cpu", "g (float[B,4,S,8] q, float[B,4,T,8] k, float[B,4,T,8] v) => (float[B,4,S,8] y) { y = Attention(q, k, v) }",
                   "");
}

TEST(DecomposeAttention, NotAFormWithoutBody) {
  expect_unchanged(decompose_attention(), "qnn", "g (float[B,4,S,8] x, int64[N] n) => (y) { q = Reshape(x, n) y = Attention(q, x, x) }",
                   "no function body is known for the form Attention(xxx)->(x) rank0=?");
}

// ── rope ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────

const Setup positions{.trials = {.contents = {{"p", "0..9"}}}};

TEST(DecomposeRotaryEmbedding, HalvesAndPairs) {
  expect_rewrite(decompose_rotary_embedding(), "qnn",
                 "g (float[B,S,16] x, float[9,4] c, float[9,4] s, int64[B,S] p) => (float[B,S,16] y) { y = RotaryEmbedding<num_heads = 2>(x, c, s, p) }",
                 "Gather Unsqueeze Gather Unsqueeze Reshape Split Mul Mul Sub Mul Mul Add Concat Reshape", positions);
  expect_rewrite(decompose_rotary_embedding(), "qnn",
                 "g (float[B,2,S,8] x, float[9,4] c, float[9,4] s, int64[B,S] p) => (float[B,2,S,8] y) { y = RotaryEmbedding<interleaved = 1>(x, c, s, p) }",
                 "Gather Unsqueeze Gather Unsqueeze Reshape Slice Squeeze Slice Squeeze Mul Mul Sub Mul Mul Add Unsqueeze Unsqueeze Concat Reshape", positions);
}

TEST(DecomposeRotaryEmbedding, APartOfTheChannels) {
  expect_rewrite(decompose_rotary_embedding(), "qnn",
                 "g (float[B,S,16] x, float[9,2] c, float[9,2] s, int64[B,S] p) => (float[B,S,16] y) {"
                 " y = RotaryEmbedding<num_heads = 2, rotary_embedding_dim = 4>(x, c, s, p) }",
                 "Gather Unsqueeze Gather Unsqueeze Reshape Shape Mul Slice Slice Split Mul Mul Sub Mul Mul Add Concat Concat Reshape", positions);
}

TEST(DecomposeRotaryEmbedding, TablesByTokenAndNotElsewhere) {
  const std::string text = "g (float[B,S,16] x, float[B,S,4] c, float[B,S,4] s) => (float[B,S,16] y) { y = RotaryEmbedding<num_heads = 2>(x, c, s) }";
  expect_rewrite(decompose_rotary_embedding(), "qnn", text, "Unsqueeze Unsqueeze Reshape Split Mul Mul Sub Mul Mul Add Concat Reshape");
  expect_unchanged(decompose_rotary_embedding(), "cuda", text, "");
}

}  // namespace
}  // namespace mobius::rules

// Inference against the shapes that ONNX Runtime really produced, and over symbols: contents, merging, errors, speed.
#include "mobius/ops/infer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "mobius/base/error.hpp"
#include "mobius/ops/fixtures.hpp"

namespace mobius::ops {
namespace {

using ir::DataType;
using ir::Dim;
using ir::Shape;
using testing::HasSubstr;

// ── fixtures ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

class InferTopic : public testing::TestWithParam<std::string> {};

// Outputs whose sizes depend on values.
bool depends_on_values(const std::string& op) {
  static const std::set<std::string, std::less<>> names{"NonZero", "Unique", "Compress", "Loop", "Loop until", "Unique unsorted", "Compress flat"};
  return names.contains(op);
}

void expect_agrees(const ir::Graph& graph, const fixtures::Case& c, bool whole) {
  for (const ir::Value* output : graph.outputs()) {
    const auto& want = c.outputs.at(output->name);
    if (!want) continue;
    if (whole || output->dtype() != DataType::undefined) {
      EXPECT_EQ(output->dtype(), want->dtype) << output->name;
    }
    if (!output->shape()) {
      EXPECT_FALSE(whole) << output->name << " has no shape";
      continue;
    }
    ASSERT_EQ(output->shape()->size(), want->dims.size()) << output->name << " is " << ir::to_string(*output->shape());
    for (std::size_t i = 0; i < want->dims.size(); ++i) {
      const Dim& d = (*output->shape())[i];
      if (whole || d.is_static()) {
        EXPECT_EQ(d, Dim(want->dims[i])) << output->name << " is " << ir::to_string(*output->shape());
      }
    }
  }
}

TEST_P(InferTopic, gives_the_shapes_that_came_out) {
  for (const auto& c : fixtures::read(GetParam())) {
    SCOPED_TRACE(c.name);
    try {
      auto model = ir::model_from_text(c.model);
      TypeInference inference;
      // Inputs that give shapes, axes and counts are known here, as they are when they are constants.
      for (const ir::Value* input : model.graph->inputs()) {
        const auto& array = c.inputs.at(input->name);
        if (!ir::is_integer(array.dtype) || array.dims.size() > 1) continue;
        Shape elements;
        for (double v : array.values) elements.push_back(Dim(static_cast<std::int64_t>(v)));
        inference.set_contents(input, std::move(elements));
      }
      inference.infer(*model.graph);
      expect_agrees(*model.graph, c, !depends_on_values(c.name));
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST_P(InferTopic, says_nothing_wrong_over_symbols) {
  for (const auto& c : fixtures::read(GetParam())) {
    SCOPED_TRACE(c.name);
    for (bool ranked : {true, false}) {
      try {
        auto model = ir::model_from_text(c.model);
        for (ir::Value* input : model.graph->inputs()) {
          if (!ranked) input->type.shape.reset();
          for (std::size_t i = 0; ranked && i < input->type.shape->size(); ++i) (*input->type.shape)[i] = Dim::symbol(input->name + "_" + std::to_string(i));
        }
        TypeInference inference;
        inference.infer(*model.graph);
        expect_agrees(*model.graph, c, false);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, InferTopic, testing::ValuesIn(fixtures::topics()), [](const auto& topic) { return topic.param; });

// ── over symbols ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// A dimension a_plus_b in the text stands for the sum of two symbols, which the syntax can't say.
ir::Model model_of(const std::string& graph) {
  auto model = ir::model_from_text("<ir_version: 11, opset_import: [\"\" : 24, \"com.microsoft\" : 1]>\n" + graph);
  for (ir::Value* input : model.graph->inputs()) {
    if (!input->type.shape) continue;
    for (auto& d : *input->type.shape) {
      auto text = d.to_string();
      auto plus = text.find("_plus_");
      if (plus != std::string::npos) d = Dim::symbol(text.substr(0, plus)) + Dim::symbol(text.substr(plus + 6));
    }
  }
  return model;
}

// Types of the graph's outputs after inference, joined by "; ".
std::string inferred(const std::string& graph) {
  auto model = model_of(graph);
  TypeInference inference;
  inference.infer(*model.graph);
  std::string result;
  for (const ir::Value* output : model.graph->outputs()) result += (result.empty() ? "" : "; ") + ir::to_string(output->type);
  return result;
}

std::string error_of(const std::string& graph) {
  try {
    return "no error: " + inferred(graph);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
}

TEST(InferSymbols, shape_contents_flow_into_reshape) {
  EXPECT_EQ(inferred(R"(g (float[batch, seq, 64] x) => (y) {
    s = Shape(x)
    zero = Constant <value = int64[1] {0}> ()
    b = Gather(s, zero)
    rest = Constant <value = int64[2] {-1, 16}> ()
    target = Concat <axis = 0> (b, rest)
    y = Reshape(x, target)
  })"),
            "float[batch,4*seq,16]");
}

TEST(InferSymbols, reshape_copies_and_solves) {
  EXPECT_EQ(inferred(R"(g (float[b, s, 64] x) => (y) { t = Constant <value = int64[4] {0, 0, -1, 16}> () y = Reshape(x, t) })"), "float[b,s,4,16]");
  EXPECT_EQ(inferred(R"(g (float[b, s, 4, 16] x) => (y) { t = Constant <value = int64[3] {0, 0, 64}> () y = Reshape(x, t) })"), "float[b,s,64]");
  EXPECT_EQ(inferred(R"(g (float[b, s, 4, 16] x) => (y) { t = Constant <value = int64[2] {-1, 64}> () y = Reshape(x, t) })"), "float[b*s,64]");
  EXPECT_EQ(inferred(R"(g (float[b, s] x, int64[3] t) => (y) { y = Reshape(x, t) })"), "float[?,?,?]");
}

TEST(InferSymbols, sums_of_symbols_are_sliced_exactly) {
  EXPECT_EQ(inferred(R"(g (float[past_plus_seq, 8] x, float[past, 1] p) => (y) {
    zero = Constant <value = int64[1] {0}> ()
    start = Shape <start = 0, end = 1> (p)
    end = Constant <value = int64[1] {9223372036854775807}> ()
    y = Slice(x, start, end, zero)
  })"),
            "float[seq,8]");
  // Where the axis may be shorter than the slice, nothing is claimed; the last element is always there.
  EXPECT_EQ(inferred(R"(g (float[n, 8] x) => (y) {
    a = Constant <value = int64[1] {-4}> () e = Constant <value = int64[1] {9223372036854775807}> () z = Constant <value = int64[1] {0}> () y = Slice(x, a, e, z)
  })"),
            "float[?,8]");
  EXPECT_EQ(inferred(R"(g (float[n, 8] x) => (y) {
    a = Constant <value = int64[1] {-1}> () e = Constant <value = int64[1] {9223372036854775807}> () z = Constant <value = int64[1] {0}> () y = Slice(x, a, e, z)
  })"),
            "float[1,8]");
  EXPECT_EQ(inferred("g (float[96, 8] x, float[n] p) => (y) { z = Constant <value = int64[1] {0}> () e = Shape(p) y = Slice(x, z, e, z) }"),
            "float[Min(96, n),8]");
}

TEST(InferSymbols, arithmetic_on_shapes) {
  EXPECT_EQ(inferred(R"(g (float[b, s] x, float[b, p] y) => (m, r) {
    sx = Shape <start = 1, end = 2> (x)
    sy = Shape <start = 1, end = 2> (y)
    total = Add(sx, sy)
    sb = Shape <start = 0, end = 1> (x)
    dims = Concat <axis = 0> (sb, total)
    m = ConstantOfShape(dims)
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    limit = Squeeze(total)
    r = Range(zero, limit, one)
  })"),
            "float[b,p + s]; int64[p + s]");
}

// As TorchScript guards every Expand: -1 stands for 1.
TEST(InferSymbols, sizes_compared_with_minus_one) {
  auto model = ir::model_from_text(
      "g (float[B,1,S] x) => (float[B,4,S] y) <int64[1] minus = {-1}, int64[1] four = {4}, int64 negative = {-1}, int64[1] two = {2}> {"
      " b = Shape<start = 0, end = 1>(x) s = Shape<start = 2>(x) sizes = Concat<axis = 0>(b, four, s) open = Concat<axis = 0>(b, minus, s)"
      " n = Shape(sizes) ones = ConstantOfShape<value = int64[1] {1}>(n) m = Mul(ones, negative)"
      " e = Equal(sizes, m) w = Where(e, ones, sizes) f = Equal(open, m) v = Where(f, ones, open)"
      " y = Expand(x, w) z = Expand(x, v) perhaps = Equal(b, two) u = Where(perhaps, s, b) t = Expand(x, u) }");
  TypeInference inference;
  inference.infer(*model.graph);
  EXPECT_EQ(ir::to_string(*inference.contents(model.graph->find_value("w"))), "[B, 4, S]");
  EXPECT_EQ(ir::to_string(*inference.contents(model.graph->find_value("v"))), "[B, 1, S]");
  EXPECT_EQ(ir::to_string(*model.graph->find_value("z")->shape()), "[B, 1, S]");
  EXPECT_EQ(ir::to_string(*inference.contents(model.graph->find_value("u"))), "[?]");
}

TEST(InferSymbols, attention_grows_the_cache) {
  EXPECT_EQ(
      inferred(
          R"(g (float16[b, s, 64] q, float16[b, s, 32] k, float16[b, s, 32] v, bool[b, 1, s, past_plus_s] m, float16[b, 2, past, 16] pk, float16[b, 2, past, 16] pv)
        => (y, a, c) { y, a, c = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, v, m, pk, pv) })"),
      "float16[b,s,64]; float16[b,2,past + s,16]; float16[b,2,past + s,16]");
  EXPECT_EQ(inferred(R"(g (float[b, s, 128] qkv, float[b, 2, past, 16] pk, float[b, 2, past, 16] pv, int32[b] l, int32 t) => (y, a, c) {
        y, a, c = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (qkv, "", "", pk, pv, l, t) })"),
            "float[b,s,64]; float[b,2,past + s,16]; float[b,2,past + s,16]");
}

TEST(InferSymbols, declared_types_say_what_inference_can_not) {
  EXPECT_EQ(inferred("g (float[a, b] x, float[c, d] y) => (float[rows, 8] z) { z = Add(x, y) }"), "float[rows,8]");
  // A graph output keeps its own symbols, a number wins over a symbol, and the operands win over a wrong number.
  EXPECT_EQ(inferred("g (float[p, 4] x, float[s, 4] y) => (float[total, 4] z) { z = Concat <axis = 0> (x, y) }"), "float[total,4]");
  EXPECT_EQ(inferred("g (float[2, 4] x) => (float[total, 5] z) { z = Relu(x) }"), "float[2,4]");
}

TEST(InferSymbols, bodies_are_inferred_with_their_node) {
  EXPECT_EQ(inferred(R"(g (float[n, 4] x, float[4] h) => (last, all) {
    last, all = Scan <num_scan_inputs = 1, body = b (state, row) => (next, out) { next = Add(state, row) out = Mul(next, row) }> (h, x)
  })"),
            "float[4]; float[n,4]");
  EXPECT_EQ(inferred(R"(g (bool c, float[n, 4] x, float[1, 4] w) => (y) {
    y = If (c) <then_branch = t () => (p) { p = Relu(x) }, else_branch = e () => (q) { q = Neg(w) }>
  })"),
            "float[?,4]");
  // A carried value that grows loses that dimension.
  EXPECT_EQ(inferred(R"(g (int64 n, bool c, float[1, 4] x) => (y, z) {
    y, z = Loop (n, c, x) <body = b (i, go, v) => (go2, w, s) { go2 = Identity(go) w = Concat <axis = 0> (v, x) s = Relu(x) }>
  })"),
            "float[?,4]; float[?,1,4]");
}

TEST(InferErrors, say_what_contradicts_and_where) {
  EXPECT_EQ(error_of("g (float[b, s, 64] x, float[32, 16] w) => (y) { [\"model.layers.0.mlp/MatMul\"] y = MatMul(x, w) }"),
            "model.layers.0.mlp/MatMul: [b, s, 64] x [32, 16]: inner dimensions 64 and 32 differ");
  EXPECT_EQ(error_of("g (float[2, 3] x, float[4] w) => (y) { y = Add(x, w) }"), "Add (y): [2, 3] and [4] can't be broadcast");
  EXPECT_EQ(error_of("g (float[2, 3] x, float16[3] w) => (y) { [\"n1\"] y = Add(x, w) }"), "n1 (Add): inputs 0 and 1 are float and float16, expected one type");
  EXPECT_THAT(error_of("g (float[2, 3] x) => (y) { y = Transpose <perm = [0, 2]> (x) }"), HasSubstr("axis 2 is outside a tensor of rank 2"));
  EXPECT_THAT(error_of("g (float[2, 3] x) => (y) { y = Transpose <perm = [0, 0]> (x) }"), HasSubstr("perm names axis 0 twice"));
  EXPECT_THAT(error_of("g (float[2, 3] x) => (y) { t = Constant <value = int64[2] {4, -1}> () y = Reshape(x, t) }"),
              HasSubstr("can't reshape [2, 3] to [4, -1]"));
  EXPECT_THAT(error_of("g (float[2, 3] x) => (y) { y = MatMul(x) }"), HasSubstr("has 1 inputs, expected 2 or more"));
  EXPECT_THAT(error_of("g (float[2, 3] x) => (y) { y = Cast(x) }"), HasSubstr("attribute 'to' is required"));
  EXPECT_THAT(error_of("g (float[2, 3] x) => (y) { y = Cast <to = 99> (x) }"), HasSubstr("99, which is no data type"));
  EXPECT_THAT(error_of("g (bool c, float[2] x) => (y) { y = If (c) <then_branch = t () => (p) { p = Relu(x) }, else_branch = e () => (q) { q = Shape(x) }> }"),
              HasSubstr("branches give float[2] and int64[1] as output 0"));
  EXPECT_THAT(error_of("g (float[1, 2, 66] q, float[1, 2, 32] k) => (y) { y = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, k) }"),
              HasSubstr("does not divide into q_num_heads = 4 heads"));
  EXPECT_THAT(error_of("g (float[1, 4, 2, 8] q, float[1, 3, 2, 8] k) => (y) { y = Attention(q, k, k) }"), HasSubstr("4 query heads for 3 key heads"));
  EXPECT_THAT(error_of("g (float[1, 2, 8] x, float[1, 2, 8] s, float[7] w) => (y) { y = com.microsoft.SkipSimplifiedLayerNormalization(x, s, w) }"),
              HasSubstr("input 2 is [7], expected the last axis of [1, 2, 8]"));
}

TEST(InferErrors, unknown_operators_are_left_alone) {
  EXPECT_EQ(inferred("g (float[2] x) => (float[3] y) { y = my.domain.Thing(x) }"), "float[3]");
  EXPECT_FALSE(has_inference({"my.domain", "Thing"}));
  EXPECT_TRUE(has_inference({"", "MatMul"}));
  EXPECT_TRUE(has_inference({"com.microsoft", "QMoE"}));
}

// A Llama-like decoder layer in the operators that the builders use.
void append_layer(ir::Graph& g, ir::Value*& x, ir::Value* mask, ir::Value* positions, ir::Value* cos, ir::Value* sin) {
  auto weight = [&](ir::Dims dims) { return g.add_initializer(g.unique_name("w"), ir::make_filled(DataType::float32, std::move(dims), 0)); };
  auto one = [&](std::string_view type, std::initializer_list<ir::Value*> in, ir::Attributes a = {}) {
    return g.append({"", type}, in, std::move(a))->output();
  };
  auto linear = [&](ir::Value* v, std::int64_t out, std::int64_t in) {
    return g.append({"com.microsoft", "FusedMatMul"}, {v, weight({out, in})}, {{"transB", std::int64_t{1}}})->output();
  };
  ir::Attributes heads{{"num_heads", std::int64_t{32}}}, kv_heads{{"num_heads", std::int64_t{8}}};
  ir::Value* h = one("RMSNormalization", {x, weight({2048})});
  ir::Value* q = one("RotaryEmbedding", {linear(h, 2048, 2048), cos, sin, positions}, heads);
  ir::Value* k = one("RotaryEmbedding", {linear(h, 512, 2048), cos, sin, positions}, kv_heads);
  ir::Type cache;
  cache.dtype = DataType::float32;
  cache.shape = Shape{"batch", 8, "past_sequence_len", 64};
  ir::Value *pk = g.add_input(g.unique_name("past"), cache), *pv = g.add_input(g.unique_name("past"), cache);
  ir::Attributes attention{{"q_num_heads", std::int64_t{32}}, {"kv_num_heads", std::int64_t{8}}};
  ir::Value* y = g.append({"", "Attention"}, {q, k, linear(h, 512, 2048), mask, pk, pv}, attention, 3)->output();
  x = one("Add", {x, linear(y, 2048, 2048)});
  h = one("RMSNormalization", {x, weight({2048})});
  ir::Value* gate = linear(h, 8192, 2048);
  h = one("Mul", {one("Mul", {gate, one("Sigmoid", {gate})}), linear(h, 8192, 2048)});
  x = one("Add", {x, linear(h, 2048, 8192)});
  while (g.node_count() % 50 != 0) x = one("Identity", {x});
}

TEST(InferSpeed, a_decoder_of_800_nodes_takes_milliseconds) {
  ir::Graph g;
  auto input = [&](const char* name, DataType dtype, Shape shape) {
    ir::Type type;
    type.dtype = dtype;
    type.shape = std::move(shape);
    return g.add_input(name, std::move(type));
  };
  ir::Value* x = input("x", DataType::float32, {"batch", "sequence_len", 2048});
  ir::Value* mask = input("mask", DataType::boolean, {"batch", 1, "sequence_len", "past_sequence_len + sequence_len"});
  ir::Value* positions = input("positions", DataType::int64, {"batch", "sequence_len"});
  ir::Value *cos = input("cos", DataType::float32, {4096, 32}), *sin = input("sin", DataType::float32, {4096, 32});
  for (int layer = 0; layer < 16; ++layer) append_layer(g, x, mask, positions, cos, sin);
  g.add_output(x);
  ASSERT_EQ(g.node_count(), 800U);
  TypeInference inference;
  auto start = std::chrono::steady_clock::now();
  inference.infer(g);
  auto took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(ir::to_string(x->type), "float[batch,sequence_len,2048]");
  RecordProperty("milliseconds", std::to_string(took));
  EXPECT_LT(took, 200) << "generous: this machine may be busy and the build unoptimised";
}

}  // namespace
}  // namespace mobius::ops

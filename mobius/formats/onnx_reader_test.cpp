// Models written by the onnx package (testdata/onnx/make_fixtures.py), and bytes that are no model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <protozero/pbf_writer.hpp>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/formats/onnx_fields.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/formats/onnx_writer.hpp"

namespace mobius::formats {
namespace {

using protozero::pbf_writer;
using testing::HasSubstr;

fs::path fixture(const char* name) { return fs::path(MOBIUS_TESTDATA) / "onnx" / name; }

ir::Model parse(std::string_view bytes) { return parse_onnx(std::as_bytes(std::span(bytes))); }

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e;
  }
  return Error(ErrorKind::internal, "no error");
}

std::string error_text(const std::string& bytes, ErrorKind kind = ErrorKind::corrupt_file) {
  const Error e = error_of([&] { parse(bytes); });
  EXPECT_EQ(e.kind(), kind) << e.what();
  return e.what();
}

std::string message(const std::function<void(pbf_writer&)>& fill) {
  std::string bytes;
  pbf_writer writer(bytes);
  fill(writer);
  return bytes;
}

// A model around the fields of a graph.
std::string model_of(const std::function<void(pbf_writer&)>& fill) {
  return message([&](pbf_writer& w) { w.add_message(onnx::model::graph, message(fill)); });
}

// A model with one initializer.
std::string tensor_model(const std::function<void(pbf_writer&)>& fill) {
  return model_of([&](pbf_writer& w) { w.add_message(onnx::graph::initializer, message(fill)); });
}

std::string node_model(const std::function<void(pbf_writer&)>& fill) {
  return model_of([&](pbf_writer& w) { w.add_message(onnx::graph::node, message(fill)); });
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("mobius_onnx_reader_test_{}", ::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_ / "model");
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

// ── what the onnx package wrote ──────────────────────────────────────────────────────────────────────────────────────────

TEST(OnnxReader, ReadsEveryElementType) {
  const ir::Model raw = read_onnx(fixture("types_raw.onnx"));
  const ir::Model typed = read_onnx(fixture("types_typed.onnx"));
  EXPECT_EQ(raw.graph->initializers().size(), 26u);
  EXPECT_EQ(to_text(raw), to_text(typed));
  const auto value = [&](const char* name) { return *ir::as_doubles(*raw.graph->find_value(name)->data()); };
  EXPECT_EQ(value("float16_value"), std::vector<double>{1.5});
  EXPECT_EQ(value("bfloat16_value"), std::vector<double>{1.0});
  EXPECT_EQ(value("int4_value"), (std::vector<double>{1, -2}));
  EXPECT_EQ(value("uint2_value"), (std::vector<double>{0, 1, 2, 3, 1}));
  EXPECT_EQ(value("float4e2m1_value"), (std::vector<double>{1, 6}));
  EXPECT_EQ(value("float8e4m3fn_value"), std::vector<double>{448});
  EXPECT_EQ(value("int64_value"), (std::vector<double>{-7, 4611686018427387904}));
  EXPECT_EQ(*ir::string_values(*raw.graph->find_value("string_value")->data()), (std::vector<std::string>{"one", "zwölf"}));
}

TEST(OnnxReader, UnderstandsWhatOnnxParserUnderstood) { EXPECT_EQ(to_text(read_onnx(fixture("printed.onnx"))), read_text_file(fixture("printed.txt"))); }

TEST(OnnxReader, KeepsEverything) {
  std::string warnings;
  const auto sink = logging::set_sink([&](logging::Level, std::string_view line) { warnings += line; });
  const ir::Model model = read_onnx(fixture("everything.onnx"));
  logging::set_sink(sink);
  EXPECT_THAT(warnings, HasSubstr("quantization annotations"));
  EXPECT_TRUE(verify(model).empty());
  EXPECT_EQ(to_text(model), R"(<
   ir_version: 11,
   opset_import: ["" : 24, "local" : 1],
   producer_name: "fixture",
   metadata_props: ["kind": "model"]
>
everything (float[batch,?,"past + 1",4] x, bool c, seq(float[]) s, optional(float[?]) o, map(int64, float) m, sparse_tensor(float[4]) sp) => (float[batch] y)
   <float[1] w = {3},
    float[batch] u>
{
   t = If (c) <else_branch: graph = else () => (r) {
      r = Identity (x)
   }, then_branch: graph = then () => (r)
      <float[1] b = {2}>
   {
      ["inner add"] t_1 = Add (x, b)
      r = Neg (t_1)
   }>
   [call] u, "" = local.f:two (t, "", x) <empty: ints = [], graphs: graphs = [else () => (r) {
      r = Identity (x)
   }, else () => (r) {
      r = Identity (x)
   }], tensors: tensors = [float[1] {1}, float {2}], types: type_protos = [float[2], float[]], untyped: floats = [1, 2]>
   y = Add (u, w)
}
<
   domain: "local",
   overload: "two",
   opset_import: ["" : 24],
   doc_string: "the function"
>
f <alpha, beta: float = 0.5> (float[n] a, b, c) => (p, q) {
   p = Relu (a)
   q = Foo <alpha: float = @alpha, beta: float = @beta> (p)
}
)");
  const ir::Graph& graph = *model.graph;
  EXPECT_EQ(graph.doc, "the graph");
  EXPECT_EQ(graph.metadata.at("kind"), "graph");
  EXPECT_EQ(graph.inputs()[0]->metadata.at("kind"), "input");
  EXPECT_EQ(graph.inputs()[0]->doc, "the input");
  EXPECT_EQ(graph.find_value("w")->metadata.at("kind"), "weight");
  EXPECT_EQ(graph.find_value("w")->doc, "the weight");
  EXPECT_EQ(graph.find_value("u")->metadata.at("kind"), "middle");
  EXPECT_EQ(graph.last()->metadata.at("origin"), "layer 0");
  EXPECT_EQ(graph.last()->doc, "adds");
  EXPECT_EQ(graph.last()->op.domain, "");
  EXPECT_EQ(model.functions[0].metadata.at("kind"), "function");
}

// ── external data ────────────────────────────────────────────────────────────────────────────────────────────────────────

TEST(OnnxReader, MapsExternalData) {
  const ir::Model model = read_onnx(fixture("external.onnx"));
  const ir::TensorPtr& w = model.graph->find_value("w")->data();
  EXPECT_EQ(*ir::as_doubles(*w), (std::vector<double>{1, 2, 3, 4}));
  ASSERT_TRUE(w->in_files());
  EXPECT_EQ(w->in_files()->at(0).offset, 8u);
  EXPECT_EQ(*ir::as_integers(*model.graph->find_value("v")->data()), (std::vector<std::int64_t>{5, 6}));
}

TEST(OnnxReader, CanLeaveExternalDataAlone) {
  const Folder folder;
  fs::copy(fixture("external.onnx"), folder / "model/m.onnx");
  const ir::Model model = read_onnx(folder / "model/m.onnx", ExternalData::skip);
  EXPECT_NE(dynamic_cast<const ir::Placeholder*>(model.graph->find_value("w")->data().get()), nullptr);
}

std::string external_model(const std::map<std::string, std::string>& entries, std::int64_t rows = 2) {
  return tensor_model([&](pbf_writer& w) {
    w.add_string(onnx::tensor::name, "w");
    w.add_int64(onnx::tensor::dims, rows);
    w.add_int32(onnx::tensor::data_type, 1);
    w.add_int32(onnx::tensor::data_location, 1);
    for (const auto& [key, value] : entries)
      w.add_message(onnx::tensor::external_data, message([&](pbf_writer& e) {
                      e.add_string(onnx::entry::key, key);
                      e.add_string(onnx::entry::value, value);
                    }));
  });
}

TEST(OnnxReader, RefusesExternalDataElsewhere) {
  const Folder folder;
  const auto error = [&](const std::map<std::string, std::string>& entries) {
    write_text_file(folder / "model/m.onnx", external_model(entries));
    return error_of([&] { read_onnx(folder / "model/m.onnx"); });
  };
  write_text_file(folder / "outside.bin", std::string(8, 'x'));
  write_text_file(folder / "model/inside.bin", std::string(8, 'x'));
  fs::create_symlink(folder / "outside.bin", folder / "model/link.bin");
  fs::create_symlink("inside.bin", folder / "model/good_link.bin");
  fs::create_directory(folder / "model/sub");

  EXPECT_THAT(error({{"location", "../outside.bin"}}).what(), HasSubstr("tensor \"w\": external data \"../outside.bin\" is not beside the model"));
  EXPECT_THAT(error({{"location", (folder / "outside.bin").string()}}).what(), HasSubstr("is not beside the model"));
  EXPECT_THAT(error({{"location", "sub/../../outside.bin"}}).what(), HasSubstr("is not beside the model"));
  EXPECT_THAT(error({{"location", "link.bin"}}).what(), HasSubstr("is a link that leaves the model's folder"));
  EXPECT_EQ(error({{"location", "missing.bin"}}).kind(), ErrorKind::not_found);
  EXPECT_EQ(error({{"location", "sub"}}).kind(), ErrorKind::io);
  EXPECT_THAT(error({}).what(), HasSubstr("external data has no location"));
  EXPECT_STREQ(error({{"location", "inside.bin"}}).what(), "no error");
  EXPECT_STREQ(error({{"location", "good_link.bin"}}).what(), "no error");
  EXPECT_THAT(error({{"location", "inside.bin"}, {"offset", "1"}}).what(), HasSubstr("needs 8 bytes"));
  EXPECT_THAT(error({{"location", "inside.bin"}, {"offset", "18446744073709551615"}}).what(), HasSubstr("needs 8 bytes"));
  EXPECT_THAT(error({{"location", "inside.bin"}, {"offset", "-1"}}).what(), HasSubstr("offset is \"-1\", expected a number"));
  EXPECT_THAT(error({{"location", "inside.bin"}, {"length", "4"}}).what(), HasSubstr("has length 4, its type and dimensions say 8"));
  EXPECT_EQ(error_of([] { parse(external_model({{"location", "inside.bin"}})); }).kind(), ErrorKind::unsupported);
}

// In the cache of Hugging Face a snapshot's files are links into a common folder.
TEST(OnnxReader, FollowsTheLinkOfTheModelItself) {
  const Folder folder;
  fs::create_directory(folder / "blobs");
  write_text_file(folder / "blobs/1", external_model({{"location", "w.bin"}}));
  write_text_file(folder / "blobs/2", std::string(8, 'x'));
  fs::create_symlink(folder / "blobs/1", folder / "model/m.onnx");
  fs::create_symlink(folder / "blobs/2", folder / "model/w.bin");
  EXPECT_EQ(read_onnx(folder / "model/m.onnx").graph->initializers().size(), 1u);
}

TEST(OnnxReader, ViewsInlineDataOfFiles) {
  const Folder folder;
  const std::string bytes(40'000, 'a');
  write_text_file(folder / "m.onnx", tensor_model([&](pbf_writer& w) {
                    w.add_string(onnx::tensor::name, "w");
                    w.add_int64(onnx::tensor::dims, 10'000);
                    w.add_int32(onnx::tensor::data_type, 1);
                    w.add_bytes(onnx::tensor::raw_data, bytes);
                  }));
  const ir::Model model = read_onnx(folder / "m.onnx");
  const auto ranges = model.graph->find_value("w")->data()->in_files();
  ASSERT_TRUE(ranges);
  EXPECT_EQ(ranges->at(0).file->path(), folder / "m.onnx");
  EXPECT_EQ(model.graph->find_value("w")->data()->bytes().at(39'999), std::byte{'a'});
}

// ── damaged and contradictory files ──────────────────────────────────────────────────────────────────────────────────────

TEST(OnnxReader, RefusesOtherFiles) {
  EXPECT_EQ(error_text(""), "the ONNX model: has no graph: not an ONNX model");
  EXPECT_THAT(error_text("<html><body>404</body></html>"), HasSubstr("damaged protobuf message"));
  EXPECT_THAT(error_text(std::string("\x3a\xff\xff\xff\xff\x0f", 6)), HasSubstr("damaged protobuf message"));
  const Error missing = error_of([] { read_onnx("no/such/file.onnx"); });
  EXPECT_EQ(missing.kind(), ErrorKind::not_found);
}

TEST(OnnxReader, RefusesEveryTruncation) {
  const std::string bytes = read_text_file(fixture("everything.onnx"));
  const auto sink = logging::set_sink([](logging::Level, std::string_view) {});
  std::size_t good = 0;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const Error e = error_of([&] { parse(bytes.substr(0, n)); });
    if (e.kind() == ErrorKind::internal) ++good;  // cut between two fields of the model
    else EXPECT_EQ(e.kind(), ErrorKind::corrupt_file) << n;
  }
  logging::set_sink(sink);
  EXPECT_LT(good, 8u);
}

TEST(OnnxReader, ChecksTensors) {
  const auto tensor = [](std::vector<std::int64_t> dims, int dtype, const std::string& raw) {
    return tensor_model([&](pbf_writer& w) {
      w.add_string(onnx::tensor::name, "w");
      for (const std::int64_t d : dims) w.add_int64(onnx::tensor::dims, d);
      w.add_int32(onnx::tensor::data_type, dtype);
      w.add_bytes(onnx::tensor::raw_data, raw);
    });
  };
  EXPECT_THAT(error_text(tensor({2}, 1, "abc")), HasSubstr("graph: tensor \"w\": has 3 bytes of data, its type and dimensions say 8"));
  EXPECT_THAT(error_text(tensor({-2}, 1, "")), HasSubstr("its dimensions are negative or too large"));
  EXPECT_THAT(error_text(tensor({1ll << 40, 1ll << 40}, 1, "")), HasSubstr("its dimensions are negative or too large"));
  EXPECT_THAT(error_text(tensor({1ll << 62, 4, 0}, 1, "")), HasSubstr("its dimensions are negative or too large"));
  EXPECT_THAT(error_text(tensor({1ll << 40}, 1, "")), HasSubstr("has 0 bytes of data"));
  EXPECT_THAT(error_text(tensor({1}, 0, "")), HasSubstr("has no element type"));
  EXPECT_THAT(error_text(tensor({1}, 99, "")), HasSubstr("element type 99 is not one of ONNX"));
  EXPECT_THAT(error_text(tensor({1}, 27, ""), ErrorKind::unsupported), HasSubstr("FLOAT6E2M3"));
  EXPECT_THAT(error_text(tensor({1}, 8, "abc")), HasSubstr("strings can't be stored as raw or external data"));
  EXPECT_THAT(error_text(tensor_model([](pbf_writer& w) {
                w.add_string(onnx::tensor::name, "w");
                w.add_int64(onnx::tensor::dims, 3);
                w.add_int32(onnx::tensor::data_type, 7);
                for (const std::int64_t v : {1, 2}) w.add_int64(onnx::tensor::int64_data, v);
              })),
              HasSubstr("its type and dimensions say 24"));
}

TEST(OnnxReader, ChecksNames) {
  const auto node = [](const char* input, const char* output) {
    return message([&](pbf_writer& w) {
      w.add_string(onnx::node::input, input);
      w.add_string(onnx::node::output, output);
      w.add_string(onnx::node::op_type, "Relu");
      w.add_string(onnx::node::name, "n");
    });
  };
  const auto error = [&](const std::vector<std::string>& nodes) {
    return error_text(model_of([&](pbf_writer& w) {
      for (const auto& n : nodes) w.add_message(onnx::graph::node, n);
    }));
  };
  EXPECT_EQ(error({node("", "a"), node("a", "a")}), "the ONNX model: graph: node 1 (Relu n): \"a\" is defined twice");
  EXPECT_EQ(error({node("a", "b"), node("", "a")}), "the ONNX model: graph: node 0 (Relu n): reads \"a\" before the node that produces it");
  EXPECT_EQ(error({node("x", "b")}), "the ONNX model: graph: node 0 (Relu n): reads \"x\", which nothing defines");
  EXPECT_THAT(error_text(tensor_model([](pbf_writer& w) { w.add_int32(onnx::tensor::data_type, 1), w.add_bytes(onnx::tensor::raw_data, "abcd"); })),
              HasSubstr("a value has an empty name"));
}

TEST(OnnxReader, BoundsNesting) {
  std::string graph;
  for (int i = 0; i < 200; ++i) {
    const std::string attribute = message([&](pbf_writer& w) {
      w.add_string(onnx::attribute::name, "body");
      w.add_message(onnx::attribute::g, graph);
    });
    graph = message([&](pbf_writer& w) { w.add_message(onnx::graph::node, message([&](pbf_writer& n) { n.add_message(onnx::node::attribute, attribute); })); });
  }
  EXPECT_THAT(error_text(message([&](pbf_writer& w) { w.add_message(onnx::model::graph, graph); })), HasSubstr("graphs are nested more than 48 deep"));

  std::string type;
  for (int i = 0; i < 200; ++i)
    type =
        message([&](pbf_writer& w) { w.add_message(onnx::type::sequence_type, message([&](pbf_writer& s) { s.add_message(onnx::type::elem_type, type); })); });
  EXPECT_THAT(error_text(model_of(
                  [&](pbf_writer& w) { w.add_message(onnx::graph::input, message([&](pbf_writer& v) { v.add_message(onnx::value_info::type, type); })); })),
              HasSubstr("types are nested more than 48 deep"));
}

TEST(OnnxReader, RefusesWhatItCannotKeep) {
  const auto unsupported = [](const std::string& bytes) { return error_text(bytes, ErrorKind::unsupported); };
  EXPECT_THAT(unsupported(model_of([](pbf_writer& w) { w.add_message(onnx::graph::sparse_initializer, std::string()); })), HasSubstr("sparse initializers"));
  EXPECT_THAT(unsupported(message([](pbf_writer& w) { w.add_message(onnx::model::training_info, std::string()); })), HasSubstr("training information"));
  EXPECT_THAT(unsupported(model_of([](pbf_writer& w) {
                w.add_message(onnx::graph::input, message([](pbf_writer& v) {
                                v.add_string(onnx::value_info::name, "x");
                                v.add_message(onnx::value_info::type, message([](pbf_writer& t) { t.add_message(onnx::type::opaque_type, std::string()); }));
                              }));
              })),
              HasSubstr("value \"x\": opaque types"));
}

TEST(OnnxReader, SkipsUnknownFields) {
  const std::string bytes = node_model([](pbf_writer& w) {
    w.add_string(1000, "from the future");
    w.add_string(onnx::node::output, "y");
    w.add_string(onnx::node::op_type, "Op");
    w.add_int64(onnx::node::name, 7);  // known, but not in this wire type
    w.add_fixed64(2000, 1);
    w.add_double(2001, 1);
  });
  const ir::Model model = parse(bytes);
  EXPECT_EQ(to_text(*model.graph), "\"\" () => () {\n   y = Op ()\n}\n");
}

}  // namespace
}  // namespace mobius::formats

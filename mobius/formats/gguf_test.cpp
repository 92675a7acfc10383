// Reading GGUF: files of another writer, and every way in which a file can be wrong.
#include "mobius/formats/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error_of_test.hpp"
#include "mobius/formats/gguf_test_writer.hpp"

namespace mobius::formats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const fs::path testdata = fs::path(MOBIUS_TESTDATA) / "gguf";

GgufHeader parse(const std::string& bytes) { return parse_gguf(std::as_bytes(std::span(bytes))); }

std::string corrupt(const std::string& bytes) {
  return error_of([&] { parse(bytes); }, ErrorKind::corrupt_file);
}

std::vector<double> numbers_of(const ir::TensorPtr& tensor) { return ir::as_doubles(*tensor).value(); }

TEST(Gguf, ReadsEveryKindOfValue) {
  const auto gguf = GgufFile::open(testdata / "metadata.gguf");
  EXPECT_EQ(gguf->architecture(), "none");
  EXPECT_EQ(gguf->integer("test.uint8"), 200);
  EXPECT_EQ(gguf->integer("test.int8"), -100);
  EXPECT_EQ(gguf->integer("test.uint16"), 60000);
  EXPECT_EQ(gguf->integer("test.int16"), -30000);
  EXPECT_EQ(gguf->integer("test.uint32"), 4000000000);
  EXPECT_EQ(gguf->integer("test.int32"), -2000000000);
  EXPECT_EQ(gguf->integer("test.uint64"), std::int64_t{1} << 62);
  EXPECT_EQ(gguf->integer("test.int64"), -(std::int64_t{1} << 62));
  EXPECT_EQ(gguf->number("test.float32"), 1e-5);  // the decimal number, not the nearest float
  EXPECT_EQ(gguf->number("test.float64"), 0.1);
  EXPECT_EQ(gguf->boolean("test.bool"), true);
  EXPECT_EQ(*gguf->string("test.string"), "Łódź");
  EXPECT_THAT(*gguf->strings("test.strings"), ElementsAre("a", "", "ß"));
  EXPECT_THAT(*gguf->integers("test.integers"), ElementsAre(3, -1, 2));
  EXPECT_THAT(*gguf->numbers("test.floats"), ElementsAre(0.5, -2.0));
  EXPECT_THAT(*gguf->integers("test.booleans"), ElementsAre(1, 0));
  const auto& nested = std::get<GgufArray>(*gguf->find("test.nested"));
  ASSERT_EQ(nested.arrays.size(), 2u);
  EXPECT_THAT(nested.arrays[0].integers, ElementsAre(1, 2));
  EXPECT_THAT(nested.arrays[1].integers, ElementsAre(3));
  EXPECT_EQ(gguf->find("test.absent"), nullptr);
  EXPECT_EQ(gguf->integer("test.absent"), std::nullopt);
  EXPECT_EQ(gguf->strings("test.absent"), nullptr);
}

TEST(Gguf, ReadsEveryPlainType) {
  const auto gguf = GgufFile::open(testdata / "metadata.gguf");
  const std::pair<const char*, ir::DataType> types[] = {
      {"float32", ir::DataType::float32}, {"float16", ir::DataType::float16}, {"bfloat16", ir::DataType::bfloat16}, {"float64", ir::DataType::float64},
      {"int8", ir::DataType::int8},       {"int16", ir::DataType::int16},     {"int32", ir::DataType::int32},       {"int64", ir::DataType::int64}};
  for (const auto& [name, type] : types) {
    const auto tensor = gguf->tensor(name);
    ASSERT_TRUE(tensor) << name;
    EXPECT_EQ(tensor->dtype(), type) << name;
    EXPECT_THAT(tensor->dims(), ElementsAre(2, 3)) << name;
    EXPECT_TRUE(tensor->in_files()) << name;
    if (ir::is_floating_point(type)) {
      EXPECT_THAT(numbers_of(tensor), ElementsAre(0, 1, 2, 3, 4, 5)) << name;
    }
  }
  EXPECT_THAT(ir::as_integers(*gguf->tensor("int64")).value(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(gguf->tensor("absent"), nullptr);
}

TEST(Gguf, OpensSplitModels) {
  const auto gguf = GgufFile::open(testdata / "split-00001-of-00002.gguf");
  EXPECT_EQ(gguf->files().size(), 2u);
  EXPECT_EQ(gguf->tensors().size(), 3u);
  EXPECT_EQ(*gguf->string("general.name"), "in two parts");
  EXPECT_THAT(numbers_of(gguf->tensor("output_norm.weight")), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(numbers_of(gguf->tensor("output.weight")), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
}

TEST(Gguf, NamesThePartThatIsWrong) {
  EXPECT_THAT(error_of([] { GgufFile::open(testdata / "split-00002-of-00002.gguf"); }, ErrorKind::invalid_argument),
              HasSubstr("is part 2 of 2 of a split model; open the first part, split-00001-of-00002.gguf"));
  TempFolder folder;
  const std::string first = read_text_file(testdata / "split-00001-of-00002.gguf");
  const fs::path path = folder.write("m-00001-of-00002.gguf", first);
  EXPECT_THAT(error_of([&] { GgufFile::open(path); }, ErrorKind::not_found), HasSubstr("m-00002-of-00002.gguf is missing: part 2 of 2"));
  folder.write("m-00002-of-00002.gguf", first);
  EXPECT_THAT(error_of([&] { GgufFile::open(path); }, ErrorKind::corrupt_file), HasSubstr("says that it is part 1 of 2, expected 2 of 2"));
  const fs::path renamed = folder.write("m.gguf", first);
  EXPECT_THAT(error_of([&] { GgufFile::open(renamed); }, ErrorKind::not_found), HasSubstr("does not end in -00001-of-00002.gguf"));
}

TEST(Gguf, ChecksTheNumberOfTensorsOfAllParts) {
  TempFolder folder;
  const auto part = [](int number, const char* tensor) {
    GgufWriter w;
    w.number<std::uint16_t>("split.no", 2, static_cast<std::uint16_t>(number)).number<std::uint16_t>("split.count", 2, 2).set("split.tensors.count", 3);
    return w.floats(tensor, {4}).bytes();
  };
  const fs::path path = folder.write("m-00001-of-00002.gguf", part(0, "a"));
  folder.write("m-00002-of-00002.gguf", part(1, "b"));
  EXPECT_THAT(error_of([&] { GgufFile::open(path); }, ErrorKind::corrupt_file), HasSubstr("the parts hold 2 tensors, expected 3"));
  folder.write("m-00002-of-00002.gguf", part(1, "a"));
  EXPECT_THAT(error_of([&] { GgufFile::open(path); }, ErrorKind::corrupt_file), HasSubstr("expected 3"));
}

TEST(Gguf, RefusesTypesThatCannotBeRead) {
  TempFolder folder;
  GgufWriter w;
  w.tensor("iq", 18, {1, 256}, std::string(98, '\0')).tensor("odd", 77, {3}, "").floats("fine", {2});
  const auto gguf = GgufFile::open(folder.write("m.gguf", w.bytes()));
  EXPECT_THAT(error_of([&] { gguf->tensor("iq"); }, ErrorKind::unsupported), HasSubstr("iq is stored as IQ3_XXS, which is not supported; these are: F32"));
  EXPECT_THAT(error_of([&] { gguf->tensor("odd"); }, ErrorKind::unsupported), HasSubstr("odd is stored as type 77"));
  EXPECT_THAT(numbers_of(gguf->tensor("fine")), ElementsAre(0, 1));
}

TEST(Gguf, NamesTheKindOfAWrongValue) {
  TempFolder folder;
  GgufWriter w;
  w.set("s", "text").set("n", 2).set("x", 2.5f).set("list", std::vector<int>{1});
  const auto gguf = GgufFile::open(folder.write("m.gguf", w.bytes()));
  EXPECT_EQ(error_of([&] { gguf->integer("s"); }, ErrorKind::corrupt_file), "metadata s is a string, expected an integer");
  EXPECT_EQ(error_of([&] { gguf->integer("x"); }, ErrorKind::corrupt_file), "metadata x is a number, expected an integer");
  EXPECT_EQ(error_of([&] { gguf->number("s"); }, ErrorKind::corrupt_file), "metadata s is a string, expected a number");
  EXPECT_EQ(error_of([&] { gguf->boolean("n"); }, ErrorKind::corrupt_file), "metadata n is an integer, expected a boolean");
  EXPECT_EQ(error_of([&] { gguf->string("list"); }, ErrorKind::corrupt_file), "metadata list is an array, expected a string");
  EXPECT_EQ(error_of([&] { gguf->strings("list"); }, ErrorKind::corrupt_file), "metadata list is an array, expected an array of strings");
  EXPECT_EQ(gguf->number("n"), 2.0);
}

TEST(GgufHeader, RefusesOtherFilesAndVersions) {
  GgufWriter w;
  w.magic = "GGML";
  EXPECT_THAT(corrupt(w.bytes()), HasSubstr("not a GGUF file"));
  w.magic = "GGUF";
  w.version = 1;
  EXPECT_EQ(error_of([&] { parse(w.bytes()); }, ErrorKind::unsupported), "GGUF version 1 is not supported (2 and 3 are)");
  w.version = 4;
  EXPECT_EQ(error_of([&] { parse(w.bytes()); }, ErrorKind::unsupported), "GGUF version 4 is not supported (2 and 3 are)");
  w.version = 3u << 24;
  EXPECT_EQ(error_of([&] { parse(w.bytes()); }, ErrorKind::unsupported), "a big-endian GGUF file is not supported");
  w.version = 2;
  EXPECT_EQ(parse(w.bytes()).version, 2u);
}

TEST(GgufHeader, RefusesImpossibleCounts) {
  std::string bytes = "GGUF";
  GgufWriter::append<std::uint32_t>(bytes, 3);
  GgufWriter::append<std::uint64_t>(bytes, 1ull << 60);
  GgufWriter::append<std::uint64_t>(bytes, 0);
  EXPECT_THAT(corrupt(bytes), HasSubstr("the number of tensors says 1152921504606846976"));

  std::string array;  // 2^40 strings in a file of a few bytes
  GgufWriter::append<std::uint32_t>(array, 8);
  GgufWriter::append<std::uint64_t>(array, 1ull << 40);
  EXPECT_THAT(corrupt(GgufWriter().raw("k", 9, array).bytes()), HasSubstr("k says 1099511627776"));

  array.clear();  // fewer strings than bytes, but each takes 8
  GgufWriter::append<std::uint32_t>(array, 8);
  GgufWriter::append<std::uint64_t>(array, 9);
  EXPECT_THAT(corrupt(GgufWriter().raw("k", 9, array + std::string(16, '\0')).bytes()), HasSubstr("k says 9"));
}

TEST(GgufHeader, RefusesDeepNesting) {
  std::string array;
  for (int i = 0; i < 6; ++i) {
    GgufWriter::append<std::uint32_t>(array, 9);
    GgufWriter::append<std::uint64_t>(array, 1);
  }
  EXPECT_EQ(corrupt(GgufWriter().raw("k", 9, array + std::string(64, '\0')).bytes()), "metadata k: arrays are nested deeper than 4");
}

TEST(GgufHeader, RefusesWrongMetadata) {
  EXPECT_EQ(corrupt(GgufWriter().set("k", 1).set("k", 2).bytes()), "metadata k is there twice");
  EXPECT_EQ(corrupt(GgufWriter().raw("k", 13, std::string(8, '\0')).bytes()), "metadata k has value type 13, expected 0 to 12");
  EXPECT_EQ(corrupt(GgufWriter().raw("k", 7, std::string(8, '\2')).bytes()), "metadata k: a boolean is 2, expected 0 or 1");
  EXPECT_EQ(corrupt(GgufWriter().number<std::uint64_t>("k", 10, ~0ull).bytes()), "metadata k: 18446744073709551615 is beyond what is allowed here");
  EXPECT_EQ(corrupt(GgufWriter().set("general.alignment", 48).bytes()), "general.alignment is not a power of two");
  EXPECT_EQ(corrupt(GgufWriter().set("general.alignment", 0).bytes()), "general.alignment is not a power of two");
  EXPECT_EQ(corrupt(GgufWriter().set("general.alignment", "32").bytes()), "general.alignment is not a power of two");
}

TEST(GgufHeader, RefusesWrongTensors) {
  EXPECT_EQ(corrupt(GgufWriter().floats("a", {2}).floats("a", {2}).bytes()), "tensor a is there twice");
  EXPECT_EQ(corrupt(GgufWriter().tensor("a", 0, {1, 1, 1, 1, 1}, "1234").bytes()), "tensor a has 5 dimensions, expected at most 4");
  EXPECT_EQ(corrupt(GgufWriter().tensor("a", 2, {2, 31}, std::string(64, '\0')).bytes()),
            "tensor a: a row has 31 elements, not a multiple of the 32 in a block of Q4_0");
  EXPECT_EQ(corrupt(GgufWriter().tensor("a", 0, {1ll << 40, 1ll << 40}, "1234").bytes()), "tensor a has too many elements");
  EXPECT_EQ(corrupt(GgufWriter().tensor("a", 0, {-1}, "1234").bytes()), "tensor a: dimension 18446744073709551615 is too large");
  EXPECT_EQ(corrupt(GgufWriter().tensor("a", 0, {8}, "1234", 4).bytes()), "tensor a: offset 4 is not a multiple of 32");
  EXPECT_THAT(corrupt(GgufWriter().tensor("a", 0, {8}, "1234", 32).bytes()), HasSubstr("tensor a has 32 bytes at 32 of the data"));
  EXPECT_THAT(corrupt(GgufWriter().tensor("a", 0, {8}, "1234", std::int64_t{1} << 62).bytes()), HasSubstr("the file is truncated"));
  EXPECT_EQ(corrupt(GgufWriter().floats("a", {8}).tensor("b", 0, {8}, std::string(32, '\0'), 0).bytes()), "tensors a and b overlap");
}

// No prefix of a file is a file; each is an error and never anything worse.
TEST(GgufHeader, RefusesEveryPrefix) {
  for (const char* name : {"metadata.gguf", "split-00001-of-00002.gguf"}) {
    const std::string bytes = read_text_file(testdata / name);
    const GgufTensorInfo last = parse(bytes).tensors.back();
    for (std::size_t n = 0; n < last.offset + last.length; ++n) EXPECT_NE(corrupt(std::string(bytes, 0, n)), "no error") << name << " of " << n;
  }
}

}  // namespace
}  // namespace mobius::formats

// Reading safetensors: what the format allows, and every way in which a file can be wrong.
#include "mobius/formats/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mobius/base/error.hpp"
#include "mobius/formats/gguf_test_writer.hpp"

namespace mobius::formats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string file_of(const std::string& header, std::size_t data) {
  std::string bytes;
  GgufWriter::append<std::uint64_t>(bytes, header.size());
  bytes += header;
  for (std::size_t i = 0; i < data; ++i) bytes += static_cast<char>(i);
  return bytes;
}
SafetensorsHeader parse(const std::string& bytes) { return parse_safetensors(std::as_bytes(std::span(bytes))); }

std::string corrupt(const std::string& header, std::size_t data) {
  try {
    parse(file_of(header, data));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::corrupt_file) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(Safetensors, HandsOutViews) {
  TempFolder folder;
  const auto path = folder.write("m.safetensors", file_of(R"({"__metadata__":{"format":"pt"},
      "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}, "a":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]},
      "empty":{"dtype":"F16","shape":[0,7],"data_offsets":[12,12]}, "scalar":{"dtype":"BF16","shape":[],"data_offsets":[12,14]}}   )",
                                                          14));
  const auto file = SafetensorsFile::open(path);
  ASSERT_EQ(file->entries().size(), 4u);
  EXPECT_EQ(file->entries()[0].name, "a");
  EXPECT_EQ(file->metadata(), (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));

  const auto a = file->tensor("a");
  EXPECT_EQ(a->dtype(), ir::DataType::int8);
  EXPECT_THAT(a->dims(), ElementsAre(2, 2));
  EXPECT_THAT(a->bytes(), ElementsAre(std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}));
  EXPECT_EQ(file->tensor("b")->bytes().front(), std::byte{4});
  EXPECT_EQ(file->tensor("b")->in_files()->front().offset, file->entries()[1].offset);  // no copy
  EXPECT_TRUE(file->tensor("empty")->bytes().empty());
  EXPECT_TRUE(file->tensor("scalar")->dims().empty());
  EXPECT_EQ(file->tensor("c"), nullptr);
}

TEST(Safetensors, KnowsTheDtypes) {
  const std::tuple<const char*, ir::DataType, int> types[] = {
      {"F64", ir::DataType::float64, 16},
      {"F32", ir::DataType::float32, 8},
      {"F16", ir::DataType::float16, 4},
      {"BF16", ir::DataType::bfloat16, 4},
      {"I64", ir::DataType::int64, 16},
      {"I32", ir::DataType::int32, 8},
      {"I16", ir::DataType::int16, 4},
      {"I8", ir::DataType::int8, 2},
      {"U64", ir::DataType::uint64, 16},
      {"U32", ir::DataType::uint32, 8},
      {"U16", ir::DataType::uint16, 4},
      {"U8", ir::DataType::uint8, 2},
      {"BOOL", ir::DataType::boolean, 2},
      {"F8_E4M3", ir::DataType::float8e4m3fn, 2},
      {"F8_E5M2", ir::DataType::float8e5m2, 2},
      {"F8_E8M0", ir::DataType::float8e8m0, 2},
      {"F8_E4M3FNUZ", ir::DataType::float8e4m3fnuz, 2},
      {"F8_E5M2FNUZ", ir::DataType::float8e5m2fnuz, 2},
      {"F4", ir::DataType::float4e2m1, 1},
      {"C64", ir::DataType::complex64, 16},
  };
  for (const auto& [name, type, bytes] : types) {
    const auto header =
        parse(file_of(fmt::format(R"({{"t":{{"dtype":"{}","shape":[2],"data_offsets":[0,{}]}}}})", name, bytes), static_cast<std::size_t>(bytes)));
    EXPECT_EQ(header.entries[0].type, type) << name;
  }
}

TEST(Safetensors, RefusesUnknownDtypesOnlyWhenAsked) {
  TempFolder folder;
  const auto file = SafetensorsFile::open(folder.write(
      "m.safetensors", file_of(R"({"odd":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]},"fine":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})", 4)));
  EXPECT_TRUE(file->tensor("fine"));
  try {
    file->tensor("odd");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::unsupported);
    EXPECT_THAT(e.what(), HasSubstr("odd has dtype F6_E3M2, which is not supported"));
  }
}

TEST(Safetensors, NamesTheFileInErrors) {
  TempFolder folder;
  try {
    SafetensorsFile::open(folder.write("bad.safetensors", "12345678{"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("bad.safetensors: the header length"));
  }
}

TEST(Safetensors, RefusesWrongHeaders) {
  EXPECT_EQ(corrupt("[]", 0), "the header is not a JSON object: not a safetensors file");
  EXPECT_EQ(corrupt("", 0), "the header is not a JSON object: not a safetensors file");
  EXPECT_THAT(corrupt("{", 0), HasSubstr("header: "));
  EXPECT_EQ(corrupt(R"({"a":3})", 0), "tensor a is described by integer, expected an object");
  EXPECT_EQ(corrupt(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), "tensor a has no dtype");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), "tensor a has no shape");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "tensor a has no data_offsets");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1), "tensor a: dtype is integer, expected a string");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1), "tensor a: shape is integer, expected an array");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1), "tensor a: shape must hold non-negative integers, found -1");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", 1), "tensor a: shape must hold non-negative integers, found string");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1), "tensor a: data_offsets has 1 numbers, expected 2");
  EXPECT_EQ(corrupt(R"({"__metadata__":{"a":1}})", 0), "__metadata__: a is integer, expected a string");
  EXPECT_EQ(corrupt(R"({"__metadata__":[]})", 0), "__metadata__ is array, expected an object");
}

TEST(Safetensors, RefusesWrongSizes) {
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), "tensor a: F32[2] takes 8 bytes, its data_offsets hold 4");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2), "tensor a: 3 elements of F4 do not fill whole bytes");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
            "tensor a: shape [4294967296, 4294967296] is too large");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0), "tensor a: shape [2305843009213693952] is too large");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})", 0),
            "tensor a: shape [4611686018427387904, 4, 0] is too large");
}

TEST(Safetensors, RefusesOverlapsHolesAndStrayBytes) {
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3), "tensor a: data_offsets [0, 4] lie outside the 3 bytes of data");
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[3,2]}})", 3), "tensor a: data_offsets [3, 2] lie outside the 3 bytes of data");
  EXPECT_THAT(corrupt(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", 4),
              HasSubstr("tensor b begins at byte 2 of the data, inside the tensor before it (which ends at 3)"));
  EXPECT_THAT(corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", 4),
              HasSubstr("tensor b begins at byte 2 of the data, expected 1"));
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2), "the tensors end at byte 1 of the data, which has 2 bytes");
}

TEST(Safetensors, RefusesANameThatIsThereTwice) {
  EXPECT_EQ(corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
            "the header names tensor a twice");
  EXPECT_EQ(corrupt(R"({"q\"{":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}, "__metadata__":{"k":"{"}})", 1), "no error");
}

TEST(Safetensors, RefusesEveryPrefix) {
  const std::string bytes = file_of(R"({"__metadata__":{"x":"y"},"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}})", 4);
  parse(bytes);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THROW(parse(bytes.substr(0, n)), Error) << n;
  }
}

}  // namespace
}  // namespace mobius::formats

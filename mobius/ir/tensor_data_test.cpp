// Tests of tensor_data.hpp.
#include "mobius/ir/tensor_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "mobius/base/error_of_test.hpp"
#include "mobius/ir/recipe.hpp"

namespace mobius::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorPtr integers(Dims dims, std::vector<std::int64_t> values) { return make_tensor(std::move(dims), std::span<const std::int64_t>(values)); }
TensorPtr floats(Dims dims, std::vector<float> values) { return make_tensor(std::move(dims), std::span<const float>(values)); }

class MappedTensorTest : public ::testing::Test {
 protected:
  MappedTensorTest() {
    path_ = fs::temp_directory_path() / ("mobius_tensor_" + std::to_string(::getpid()));
    std::string text(100, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i);
    write_text_file(path_, text);
    file_ = MappedFile::open(path_);
  }
  ~MappedTensorTest() override { fs::remove(path_); }
  fs::path path_;
  std::shared_ptr<const MappedFile> file_;
};

TEST(TensorData, CountsElements) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3}), 6);
  EXPECT_EQ(element_count({1ll << 40, 1ll << 40, 0}), 0);
  EXPECT_EQ(kind_of([] { element_count({1ll << 40, 1ll << 40}); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { element_count({-1}); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { element_count({0, -1}); }), ErrorKind::invalid_argument);
}

TEST(TensorData, OwnsBytes) {
  const TensorPtr t = integers({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(t->dtype(), DataType::int64);
  EXPECT_EQ(t->byte_size(), 32u);
  EXPECT_EQ(t->in_memory().size(), 32u);
  std::array<std::int64_t, 2> part{};
  t->read(8, std::as_writable_bytes(std::span(part)));
  EXPECT_THAT(part, ElementsAre(2, 3));
  EXPECT_EQ(kind_of([&] { t->read(24, std::as_writable_bytes(std::span(part))); }), ErrorKind::internal);
  EXPECT_EQ(kind_of([] { make_tensor(DataType::float32, {2}, std::vector<std::byte>(7)); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { make_tensor(DataType::undefined, {2}, {}); }), ErrorKind::invalid_argument);
}

TEST(TensorData, IdentityIsContentWhenSmall) {
  EXPECT_EQ(integers({2}, {1, 2})->identity(), integers({2}, {1, 2})->identity());
  EXPECT_NE(integers({2}, {1, 2})->identity(), integers({2}, {1, 3})->identity());
  EXPECT_NE(integers({2}, {1, 2})->identity(), integers({1, 2}, {1, 2})->identity());
  const std::vector<std::int64_t> many(9, 1);
  EXPECT_NE(integers({9}, many)->identity(), integers({9}, many)->identity());
  EXPECT_EQ(make_filled(DataType::float16, {5000}, 1)->identity(), make_filled(DataType::float16, {5000}, 1)->identity());
  EXPECT_NE(make_filled(DataType::float16, {5000}, 1)->identity(), make_filled(DataType::float16, {5000}, 2)->identity());
}

TEST(TensorData, FillsWithoutMemory) {
  for (const std::int64_t n : {3ll, 5001ll}) {
    const TensorPtr t = make_filled(DataType::bfloat16, {n}, -1.5);
    EXPECT_EQ(t->in_memory().empty(), n > 3000);
    const auto bytes = t->bytes();
    for (std::size_t i = 0; i < bytes.size(); i += 2) ASSERT_TRUE(bytes[i] == std::byte{0xC0} && bytes[i + 1] == std::byte{0xBF});
    const auto nibbles = make_filled(DataType::int4, {n}, -3)->bytes();
    EXPECT_EQ(nibbles.size(), static_cast<std::size_t>(n + 1) / 2);
    EXPECT_EQ(nibbles.back(), std::byte{0xDD});
  }
  EXPECT_EQ(make_filled(DataType::boolean, {1ll << 40}, 1)->byte_size(), 1ull << 40);
  EXPECT_EQ(as_scalar(*make_scalar(DataType::float16, 0.1)), 0.0999755859375);
  EXPECT_EQ(as_integers(*make_scalar(DataType::int32, -7)), std::vector<std::int64_t>{-7});
  EXPECT_EQ(kind_of([] { make_scalar(DataType::string, 1); }), ErrorKind::unsupported);
}

TEST(TensorData, Strings) {
  const TensorPtr t = make_string_tensor({2}, {"a", "b"});
  ASSERT_NE(string_values(*t), nullptr);
  EXPECT_THAT(*string_values(*t), ElementsAre("a", "b"));
  EXPECT_TRUE(t->bytes().empty());
  EXPECT_EQ(string_values(*integers({1}, {1})), nullptr);
  EXPECT_EQ(as_doubles(*t), std::nullopt);
  EXPECT_EQ(kind_of([] { make_string_tensor({3}, {"a"}); }), ErrorKind::invalid_argument);
}

TEST_F(MappedTensorTest, IsAViewIntoAFile) {
  const TensorPtr t = mapped_tensor(DataType::uint8, {2, 5}, file_, 90);
  EXPECT_TRUE(t->in_memory().empty());
  const auto ranges = t->in_files().value();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].offset, 90u);
  EXPECT_EQ(ranges[0].length, 10u);
  EXPECT_EQ(t->bytes()[9], std::byte{99});
  EXPECT_EQ(t->identity(), mapped_tensor(DataType::uint8, {2, 5}, file_, 90)->identity());
  EXPECT_NE(t->identity(), mapped_tensor(DataType::uint8, {2, 5}, file_, 89)->identity());
}

TEST_F(MappedTensorTest, LiesInsideTheFile) {
  const auto kind = [&](Dims dims, std::uint64_t offset) { return kind_of([&] { mapped_tensor(DataType::float32, std::move(dims), file_, offset); }); };
  EXPECT_EQ(kind({25}, 0), std::nullopt);
  EXPECT_EQ(kind({0}, 100), std::nullopt);
  EXPECT_EQ(kind({25}, 1), ErrorKind::corrupt_file);
  EXPECT_EQ(kind({1}, ~0ull - 1), ErrorKind::corrupt_file);
  EXPECT_EQ(kind({1ll << 58}, 0), ErrorKind::corrupt_file);
  EXPECT_EQ(kind({1ll << 62}, 0), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({1ll << 40, 1ll << 40}, 0), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({-4}, 0), ErrorKind::invalid_argument);
}

TEST(Placeholder, IsUnreadableUntilBound) {
  const auto p = std::make_shared<Placeholder>(std::vector<std::string>{"a.weight", "b.weight"}, DataType::float32, Dims{2});
  EXPECT_FALSE(p->is_bound());
  EXPECT_THAT(error_of([&] { p->bytes(); }, ErrorKind::not_found), HasSubstr("a.weight"));
  EXPECT_EQ(as_doubles(*p), std::nullopt);
  EXPECT_EQ(as_doubles(*slice(cast(p, DataType::float16), 0, 0, 1)), std::nullopt);
  EXPECT_TRUE(p->sources().empty());
  EXPECT_FALSE(p->identity().empty());

  p->bind(floats({2}, {1, 2}));
  EXPECT_EQ(as_doubles(*p), (std::vector<double>{1, 2}));
  EXPECT_EQ(as_doubles(*slice(cast(p, DataType::float16), 0, 0, 1)), std::vector<double>{1});
  EXPECT_EQ(p->sources().size(), 1u);
  EXPECT_EQ(p->identity(), floats({2}, {1, 2})->identity());
  p->bind(floats({2}, {3, 4}));
  EXPECT_EQ(as_doubles(*p), (std::vector<double>{3, 4}));
}

TEST(Placeholder, ChecksDimsAndCasts) {
  const auto p = std::make_shared<Placeholder>(std::vector<std::string>{"a.weight"}, DataType::bfloat16, Dims{2});
  EXPECT_EQ(error_of([&] { p->bind(floats({1, 2}, {1, 2})); }, ErrorKind::invalid_argument), "a.weight is [1, 2], expected [2]");
  p->bind(floats({2}, {1, 0.1f}));
  EXPECT_EQ(p->byte_size(), 4u);
  EXPECT_EQ(as_doubles(*p), (std::vector<double>{1, 0.10009765625}));
  EXPECT_TRUE(p->in_memory().empty());
}

TEST(TensorData, NumbersOfSmallTensors) {
  EXPECT_EQ(as_integers(*integers({2}, {1, -2})), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(as_integers(*floats({1}, {1})), std::nullopt);
  EXPECT_EQ(as_doubles(*integers({1}, {3})), std::vector<double>{3});
  EXPECT_EQ(as_integers(*make_filled(DataType::uint64, {1}, 0x1p63)), std::nullopt);
  EXPECT_EQ(as_integers(*make_filled(DataType::uint64, {2}, 5)), (std::vector<std::int64_t>{5, 5}));
  EXPECT_EQ(as_integers(*make_filled(DataType::int4, {3}, -5)), (std::vector<std::int64_t>{-5, -5, -5}));
  EXPECT_EQ(as_integers(*make_filled(DataType::boolean, {1}, 1)), std::vector<std::int64_t>{1});
  EXPECT_EQ(as_integers(*make_filled(DataType::int32, {1 << 20}, 1)), std::nullopt);
  EXPECT_EQ(as_integers(*integers({0}, {})), std::vector<std::int64_t>{});
  EXPECT_EQ(as_scalar(*floats({1, 1}, {2.5f})), 2.5);
  EXPECT_EQ(as_scalar(*floats({2}, {1, 2})), std::nullopt);
  EXPECT_EQ(as_scalar(*floats({0}, {})), std::nullopt);
}

}  // namespace
}  // namespace mobius::ir

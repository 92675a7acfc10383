// Tests of recipe.hpp: every step, and random chains of steps, against index arithmetic on whole tensors.
#include "mobius/ir/recipe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>

#include "mobius/base/error_of_test.hpp"
#include "mobius/ir/elements.hpp"

namespace mobius::ir {
namespace {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

// A tensor as plain bytes, with steps written the obvious way.
struct Plain {
  DataType dtype;
  Dims dims;
  Bytes bytes;
};

// Makes a tensor of `dims` whose element at an index is x's element number from(index).
template <class From>
Plain gathered(const Plain& x, Dims dims, From from) {
  const auto width = static_cast<std::size_t>(bit_width(x.dtype) / 8);
  const auto count = static_cast<std::size_t>(element_count(dims));
  Plain out{x.dtype, dims, Bytes(count * width)};
  std::vector<std::int64_t> index(dims.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(out.bytes.data() + i * width, x.bytes.data() + static_cast<std::size_t>(from(index)) * width, width);
    for (std::size_t axis = dims.size(); axis-- > 0 && ++index[axis] == dims[axis];) index[axis] = 0;
  }
  return out;
}

Plain plain_transpose(const Plain& x, const std::vector<std::int64_t>& perm) {
  Dims dims;
  for (const std::int64_t p : perm) dims.push_back(x.dims[static_cast<std::size_t>(p)]);
  std::vector<std::int64_t> source(perm.size());
  return gathered(x, dims, [&](const std::vector<std::int64_t>& index) {
    for (std::size_t i = 0; i < perm.size(); ++i) source[static_cast<std::size_t>(perm[i])] = index[i];
    std::int64_t flat = 0;
    for (std::size_t i = 0; i < source.size(); ++i) flat = flat * x.dims[i] + source[i];
    return flat;
  });
}

Plain plain_take(const Plain& x, std::size_t axis, const std::vector<std::int64_t>& indices) {
  Dims dims = x.dims;
  dims[axis] = static_cast<std::int64_t>(indices.size());
  return gathered(x, dims, [&](const std::vector<std::int64_t>& index) {
    std::int64_t flat = 0;
    for (std::size_t i = 0; i < index.size(); ++i) flat = flat * x.dims[i] + (i == axis ? indices[static_cast<std::size_t>(index[i])] : index[i]);
    return flat;
  });
}

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(end - begin));
  std::iota(result.begin(), result.end(), begin);
  return result;
}

Plain plain_concat(const std::vector<Plain>& xs, std::size_t axis) {
  Plain out{xs[0].dtype, xs[0].dims, {}};
  out.dims[axis] = 0;
  for (const Plain& x : xs) out.dims[axis] += x.dims[axis];
  std::size_t lines = 1;
  for (std::size_t i = 0; i < axis; ++i) lines *= static_cast<std::size_t>(out.dims[i]);
  for (std::size_t line = 0; line < lines; ++line) {
    for (const Plain& x : xs) {
      const std::size_t run = x.bytes.size() / lines;
      out.bytes.insert(out.bytes.end(), x.bytes.begin() + static_cast<std::ptrdiff_t>(line * run),
                       x.bytes.begin() + static_cast<std::ptrdiff_t>((line + 1) * run));
    }
  }
  return out;
}

Plain plain_cast(const Plain& x, DataType to) {
  Plain out{to, x.dims, Bytes(static_cast<std::size_t>(byte_size(to, static_cast<std::uint64_t>(element_count(x.dims)))))};
  convert_elements(x.dtype, x.bytes.data(), 0, to, out.bytes.data(), static_cast<std::size_t>(element_count(x.dims)));
  return out;
}

// A leaf that is neither in memory nor in a file, and checks what it is asked.
class Opaque final : public TensorData {
 public:
  explicit Opaque(Plain x) : TensorData(x.dtype, x.dims), bytes_(std::move(x.bytes)) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    const auto width = static_cast<std::uint64_t>(std::max(bit_width(dtype()) / 8, 1));
    if (offset + out.size() > bytes_.size() || offset % width != 0 || out.size() % width != 0) ADD_FAILURE() << "read of " << out.size() << " at " << offset;
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    largest_read_ = std::max(largest_read_.load(), out.size());
    bytes_read_ += out.size();
  }
  std::string identity() const override { return "opaque"; }
  std::size_t largest_read() const { return largest_read_; }
  std::size_t bytes_read() const { return bytes_read_; }

 private:
  Bytes bytes_;
  mutable std::atomic<std::size_t> largest_read_ = 0;
  mutable std::atomic<std::size_t> bytes_read_ = 0;
};

Plain random_plain(Random& random, DataType dtype, Dims dims) {
  Plain x{dtype, dims, Bytes(static_cast<std::size_t>(byte_size(dtype, static_cast<std::uint64_t>(element_count(dims)))))};
  for (std::byte& b : x.bytes) b = static_cast<std::byte>(dtype == DataType::boolean ? random() % 2 : random() % 256);
  return x;
}

class RecipeTest : public ::testing::Test {
 protected:
  RecipeTest() : path_(fs::temp_directory_path() / ("mobius_recipe_" + std::to_string(::getpid()))) {}
  ~RecipeTest() override { fs::remove(path_); }

  // The bytes as one kind of leaf or another.
  TensorPtr leaf(const Plain& x, std::uint64_t kind) const {
    if (kind % 4 == 0) return make_tensor(x.dtype, x.dims, x.bytes);
    if (kind % 4 == 1) return std::make_shared<Opaque>(x);
    fs::remove(path_);  // an older map keeps its own file
    write_text_file(path_, "head" + std::string(reinterpret_cast<const char*>(x.bytes.data()), x.bytes.size()));
    TensorPtr mapped = mapped_tensor(x.dtype, x.dims, MappedFile::open(path_), 4);
    if (kind % 4 == 2) return mapped;
    auto placeholder = std::make_shared<Placeholder>(std::vector<std::string>{"w"}, x.dtype, x.dims);
    placeholder->bind(mapped);
    return placeholder;
  }

  static void expect_equal(const TensorPtr& got, const Plain& want, Random& random) {
    ASSERT_EQ(got->dtype(), want.dtype);
    ASSERT_EQ(got->dims(), want.dims);
    ASSERT_EQ(got->byte_size(), want.bytes.size());
    ASSERT_TRUE(got->bytes() == want.bytes) << got->identity();
    const auto width = static_cast<std::uint64_t>(std::max(bit_width(want.dtype) / 8, 1));
    const std::uint64_t elements = want.bytes.size() / width;
    for (int i = 0; i < 12 && elements > 0; ++i) {
      const std::uint64_t begin = random() % elements;
      const std::uint64_t longest = i % 3 == 0 ? 5 : elements;
      const std::uint64_t n = random() % std::min(elements - begin + 1, longest + 1);
      Bytes part(static_cast<std::size_t>(n * width) + 2, std::byte{0x5A});
      // At an odd address sometimes.
      const std::size_t shift = i % 2 == 0 ? 0 : 1;
      got->read(begin * width, std::span(part).subspan(shift, static_cast<std::size_t>(n * width)));
      ASSERT_TRUE(std::memcmp(part.data() + shift, want.bytes.data() + begin * width, static_cast<std::size_t>(n * width)) == 0)
          << got->identity() << " from " << begin << " on, " << n;
      ASSERT_TRUE(part.back() == std::byte{0x5A});
    }
    if (!got->in_memory().empty()) {
      ASSERT_TRUE(std::ranges::equal(got->in_memory(), want.bytes));
    }
    if (const auto ranges = got->in_files()) {
      Bytes joined;
      for (const FileRange& r : *ranges) {
        Bytes part(static_cast<std::size_t>(r.length));
        r.file->read_at(r.offset, part);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      ASSERT_TRUE(joined == want.bytes) << got->identity();
    }
  }

  fs::path path_;
};

// ── random chains ────────────────────────────────────────────────────────────────────────────────────────────────────────

struct Pair {
  TensorPtr recipe;
  Plain plain;
};

Dims random_factors(Random& random, std::int64_t count) {
  Dims dims;
  while (count > 1 && dims.size() < 4) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= count; ++d) {
      if (count % d == 0) divisors.push_back(d);
    }
    dims.push_back(divisors[random() % divisors.size()]);
    count /= dims.back();
  }
  dims.push_back(count);
  return dims;
}

Pair random_step(const Pair& x, Random& random) {
  const Dims& dims = x.plain.dims;
  const std::size_t axis = random() % dims.size();
  const auto axis_of = static_cast<std::int64_t>(axis);
  const std::int64_t size = dims[axis];
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  switch (random() % 8) {
    case 0: {
      const Dims to = random_factors(random, element_count(dims));
      return {reshape(x.recipe, to), {x.plain.dtype, to, x.plain.bytes}};
    }
    case 1:
    case 2: {
      std::vector<std::int64_t> perm = range(0, static_cast<std::int64_t>(dims.size()));
      std::ranges::shuffle(perm, random);
      return {transpose(x.recipe, perm), plain_transpose(x.plain, perm)};
    }
    case 3: {
      const std::int64_t begin = below(size + 1);
      const std::int64_t end = begin + below(size - begin + 1);
      if (begin == end && random() % 4 != 0) return x;
      return {slice(x.recipe, axis_of, begin, end), plain_take(x.plain, axis, range(begin, end))};
    }
    case 4: {
      const std::int64_t cut = below(size + 1);
      const Pair a{slice(x.recipe, axis_of, 0, cut), plain_take(x.plain, axis, range(0, cut))};
      const Pair b{slice(x.recipe, axis_of, cut, size), plain_take(x.plain, axis, range(cut, size))};
      if (random() % 2 == 0) return {concat({b.recipe, x.recipe, a.recipe}, axis_of), plain_concat({b.plain, x.plain, a.plain}, axis)};
      return {concat({a.recipe, b.recipe}, axis_of), x.plain};
    }
    case 5: {
      std::vector<std::int64_t> indices(static_cast<std::size_t>(size == 0 ? 0 : below(2 * size) + 1));
      for (std::int64_t& i : indices) i = below(size);
      return {take(x.recipe, axis_of, indices), plain_take(x.plain, axis, indices)};
    }
    case 6: {
      constexpr DataType types[] = {DataType::float16, DataType::float32, DataType::bfloat16, DataType::float64, DataType::int32, DataType::int8};
      const DataType to = types[random() % std::size(types)];
      return {cast(x.recipe, to), plain_cast(x.plain, to)};
    }
    default: {
      const std::int64_t to = size + below(4);
      Dims padding = dims;
      padding[axis] = to - size;
      const TensorPtr filled = make_filled(x.plain.dtype, padding, 1);
      return {pad_end(x.recipe, axis_of, to, 1), plain_concat({x.plain, {x.plain.dtype, padding, filled->bytes()}}, axis)};
    }
  }
}

TEST_F(RecipeTest, RandomChains) {
  constexpr DataType types[] = {DataType::bfloat16, DataType::float16, DataType::float32, DataType::float64,
                                DataType::int8,     DataType::int64,   DataType::boolean};
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    Dims dims;
    for (std::size_t rank = 1 + random() % 4; dims.size() < rank;) dims.push_back(static_cast<std::int64_t>(random() % 6 + (random() % 10 == 0 ? 0 : 1)));
    const Plain start = random_plain(random, types[random() % std::size(types)], dims);
    Pair x{leaf(start, random()), start};
    for (std::size_t steps = 1 + random() % 5; steps > 0; --steps) {
      Pair next = random_step(x, random);
      if (element_count(next.plain.dims) <= 5000) x = std::move(next);
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_equal(x.recipe, x.plain, random);
    if (HasFatalFailure()) return;
  }
}

// Large enough for long runs, several blocks and tiles.
TEST_F(RecipeTest, LargeTensors) {
  const Dims shapes[] = {{700, 900},  {3, 5000, 7},    {9000, 33},   {33, 9000},    {20, 15, 20, 13}, {2, 150000},
                         {150000, 2}, {64, 2, 16, 64}, {6, 4, 4099}, {600, 1, 500}, {20, 20000},      {3, 70, 90, 5}};
  constexpr DataType types[] = {DataType::bfloat16, DataType::float32, DataType::uint8, DataType::int64};
  Random random(11);
  std::uint64_t turn = 0;
  for (const Dims& dims : shapes) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Plain start = random_plain(random, types[turn++ % 4], dims);
      const TensorPtr x = leaf(start, turn % 3);
      std::vector<std::int64_t> perm = range(0, static_cast<std::int64_t>(dims.size()));
      do {
        expect_equal(transpose(x, perm), plain_transpose(start, perm), random);
        if (HasFatalFailure()) return;
      } while (std::next_permutation(perm.begin(), perm.end()));
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        SCOPED_TRACE("axis " + std::to_string(axis));
        const std::int64_t size = dims[axis];
        const auto at = static_cast<std::int64_t>(axis);
        expect_equal(slice(x, at, size / 3, size / 3 + (size + 1) / 2), plain_take(start, axis, range(size / 3, size / 3 + (size + 1) / 2)), random);
        expect_equal(slice(x, at, 0, 1), plain_take(start, axis, {0}), random);
        std::vector<std::int64_t> indices = range(0, size);
        std::ranges::rotate(indices, indices.begin() + size / 2);
        expect_equal(concat({slice(x, at, size / 2, size), slice(x, at, 0, size / 2)}, at), plain_take(start, axis, indices), random);
        std::ranges::shuffle(indices, random);
        expect_equal(take(x, at, indices), plain_take(start, axis, indices), random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(RecipeTest, LargeCasts) {
  Random random(12);
  for (const DataType from : {DataType::bfloat16, DataType::float32, DataType::int32}) {
    const Plain start = random_plain(random, from, {301, 1000});
    for (std::uint64_t kind = 0; kind < 3; ++kind) {
      const TensorPtr x = leaf(start, kind);
      for (const DataType to : {DataType::float16, DataType::float32, DataType::float64, DataType::int8}) {
        expect_equal(cast(x, to), plain_cast(start, to), random);
        expect_equal(cast(transpose(x, {1, 0}), to), plain_cast(plain_transpose(start, {1, 0}), to), random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(RecipeTest, ReadsBoundedAmounts) {
  Random random(13);
  const Plain start = random_plain(random, DataType::bfloat16, {2000, 3000});
  const auto x = std::make_shared<Opaque>(start);
  transpose(x, {1, 0})->bytes();
  EXPECT_LE(x->largest_read(), (1u << 20) + (1u << 18));
  EXPECT_LE(x->bytes_read(), start.bytes.size() * 5 / 4);
  // One output row is one column of the source.
  const std::size_t before = x->bytes_read();
  Bytes row(4000);
  transpose(x, {1, 0})->read(4000 * 17, row);
  EXPECT_LE(x->bytes_read() - before, 4000u);
  slice(x, 1, 100, 101)->bytes();
  cast(x, DataType::float32)->bytes();
  EXPECT_LE(x->largest_read(), (1u << 20) + (1u << 18));
}

// ── single steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────

TensorPtr floats(Dims dims, std::vector<float> values) { return make_tensor(std::move(dims), std::span<const float>(values)); }

TEST_F(RecipeTest, AffineRoundsOnce) {
  std::vector<float> values(10000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.001f - 3.0f;
  const TensorPtr x = cast(floats({100, 100}, values), DataType::bfloat16);
  const TensorPtr y = affine(x, 0.3, 1);
  EXPECT_EQ(y->dtype(), DataType::bfloat16);
  const auto in = as_doubles(*slice(x, 0, 5, 7)).value();
  const auto out = as_doubles(*slice(y, 0, 5, 7)).value();
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double want = in[i] * 0.3 + 1;
    EXPECT_EQ(out[i], as_scalar(*make_scalar(DataType::bfloat16, want))) << i;
  }
  EXPECT_THROW(affine(make_scalar(DataType::int32, 1), 1, 1), Error);
  EXPECT_NE(affine(x, 1, 1)->identity(), affine(x, 1, 2)->identity());
}

TEST_F(RecipeTest, ComputedStartsAnywhere) {
  const auto fill = [](std::int64_t first, std::int64_t rows, float* out) {
    for (std::int64_t i = 0; i < rows * 7; ++i) out[i] = static_cast<float>(first * 7 + i);
  };
  Plain want{DataType::float32, {20, 1000, 7}, Bytes(20 * 1000 * 7 * 4)};
  for (std::size_t i = 0; i < 20 * 1000 * 7; ++i) {
    const auto v = static_cast<float>(i);
    std::memcpy(want.bytes.data() + i * 4, &v, 4);
  }
  Random random(14);
  expect_equal(computed(DataType::float32, want.dims, "count", fill), want, random);
  expect_equal(computed(DataType::float16, want.dims, "count", fill), plain_cast(want, DataType::float16), random);
  EXPECT_EQ(computed(DataType::float32, {2, 7}, "count", fill)->identity(), computed(DataType::float32, {2, 7}, "count", fill)->identity());
  EXPECT_EQ(computed(DataType::float32, {2, 7}, "", fill)->identity(), "");
  EXPECT_EQ(slice(computed(DataType::float32, {2, 7}, "", fill), 0, 0, 1)->identity(), "");
  EXPECT_TRUE(computed(DataType::float32, {2, 0}, "none", fill)->bytes().empty());
  EXPECT_THROW(computed(DataType::float32, {}, "count", fill), Error);
  EXPECT_THROW(computed(DataType::string, {7}, "count", fill), Error);
}

TEST_F(RecipeTest, ElementwiseTakesSingleElements) {
  std::vector<float> values(9001);
  std::iota(values.begin(), values.end(), 0.0f);
  const TensorPtr a = floats({9001}, values);
  const auto f = [](std::span<const double> v) { return v[0] * 2 + v[1] / v[2]; };
  const TensorPtr y = elementwise({make_scalar(DataType::float16, 3), cast(a, DataType::float64), floats({1}, {4})}, DataType::float32, "f", f);
  EXPECT_EQ(y->dims(), Dims{9001});
  const Bytes bytes = y->bytes();
  for (std::size_t i = 0; i < values.size(); ++i) {
    float v = 0;
    std::memcpy(&v, bytes.data() + i * 4, 4);
    ASSERT_EQ(v, 6.0f + values[i] / 4) << i;
  }
  EXPECT_EQ(as_doubles(*slice(y, 0, 8999, 9001)), (std::vector<double>{6 + 8999 / 4.0, 6 + 9000 / 4.0}));
  EXPECT_THROW(elementwise({a, floats({2}, {1, 2})}, DataType::float32, "f", f), Error);
  EXPECT_THROW(elementwise({make_scalar(DataType::int64, 1)}, DataType::float32, "f", f), Error);
}

TEST_F(RecipeTest, StackAddsAnAxis) {
  const TensorPtr y = stack({floats({2}, {1, 2}), floats({2}, {3, 4}), floats({2}, {5, 6})});
  EXPECT_EQ(y->dims(), (Dims{3, 2}));
  EXPECT_EQ(as_doubles(*y), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_THROW(stack({}), Error);
}

TEST_F(RecipeTest, SubByteTypesMoveInWholeBytes) {
  Random random(15);
  const Plain plain = random_plain(random, DataType::uint4, {6, 10});
  const TensorPtr x = leaf(plain, 2);
  const TensorPtr y = concat({slice(x, 0, 4, 6), slice(x, 0, 0, 4)}, 0);
  EXPECT_EQ(y->in_files()->size(), 2u);
  Bytes want(plain.bytes.begin() + 20, plain.bytes.end());
  want.insert(want.end(), plain.bytes.begin(), plain.bytes.begin() + 20);
  EXPECT_EQ(y->bytes(), want);
  EXPECT_EQ(as_integers(*slice(x, 1, 2, 4))->size(), 12u);
  EXPECT_EQ(reshape(x, {60})->bytes(), plain.bytes);
  EXPECT_EQ(slice(reshape(x, {60}), 0, 4, 60)->bytes().size(), 28u);
  // Once cast they are whole bytes.
  const Plain wide = plain_cast(plain, DataType::float16);
  expect_equal(cast(x, DataType::float16), wide, random);
  expect_equal(slice(cast(x, DataType::float16), 1, 1, 4), plain_take(wide, 1, {1, 2, 3}), random);
}

TEST_F(RecipeTest, SubByteTypesAreNotCutWithinBytes) {
  const TensorPtr x = make_filled(DataType::int4, {5, 3}, 1);
  EXPECT_EQ(kind_of([&] { slice(x, 0, 1, 3); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of([&] { slice(x, 1, 0, 1); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of([&] { concat({x, x}, 0); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of([&] { take(x, 0, {1, 0}); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of([&] { transpose(x, {1, 0}); }), ErrorKind::unsupported);
  EXPECT_EQ(slice(x, 0, 2, 5)->bytes().size(), 5u);
  EXPECT_EQ(as_doubles(*cast(x, DataType::float16)), std::vector<double>(15, 1.0));
  EXPECT_EQ(kind_of([&] { cast(make_scalar(DataType::float32, 1), DataType::int4); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of([&] { cast(make_scalar(DataType::float32, 1), DataType::float8e4m3fn); }), ErrorKind::unsupported);
}

TEST_F(RecipeTest, ArgumentsAreChecked) {
  const TensorPtr x = make_filled(DataType::float32, {2, 3}, 1);
  for (const auto& bad : std::vector<std::function<void()>>{
           [&] { reshape(x, {5}); },
           [&] {
             reshape(x, {-2, -3});
           },
           [&] { transpose(x, {0}); },
           [&] {
             transpose(x, {0, 0});
           },
           [&] {
             transpose(x, {0, 2});
           },
           [&] {
             transpose(x, {-1, 0});
           },
           [&] { slice(x, 2, 0, 1); }, [&] { slice(x, 0, -1, 1); }, [&] { slice(x, 0, 0, 3); }, [&] { slice(x, 0, 2, 1); }, [&] { concat({}, 0); },
           [&] {
             concat({x, make_filled(DataType::float32, {2, 4}, 1)}, 0);
           },
           [&] {
             concat({x, make_filled(DataType::float16, {2, 3}, 1)}, 0);
           },
           [&] {
             concat({x, make_filled(DataType::float32, {2}, 1)}, 0);
           },
           [&] { take(x, 0, {2}); }, [&] { take(x, 0, {-1}); }, [&] { pad_end(x, 0, 1); }, [&] { slice(make_scalar(DataType::float32, 1), 0, 0, 0); }}) {
    EXPECT_EQ(kind_of(bad), ErrorKind::invalid_argument);
  }
  const TensorPtr strings = make_string_tensor({2}, {"a", "b"});
  EXPECT_EQ(kind_of([&] { slice(strings, 0, 0, 1); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of([&] { cast(strings, DataType::float32); }), ErrorKind::unsupported);
  EXPECT_EQ(string_values(*reshape(strings, {1, 2}))->size(), 2u);
  EXPECT_EQ(slice(x, -1, 0, 1)->dims(), (Dims{2, 1}));
}

TEST_F(RecipeTest, FilesArePassedThrough) {
  Random random(16);
  const Plain plain = random_plain(random, DataType::float16, {10, 4});
  const TensorPtr x = leaf(plain, 2);
  const auto ranges = [](const TensorPtr& t) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> result;
    const auto files = t->in_files().value();
    for (const FileRange& r : files) result.emplace_back(r.offset, r.length);
    return result;
  };
  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  EXPECT_EQ(ranges(reshape(x, {40})), (Ranges{{4, 80}}));
  EXPECT_EQ(ranges(slice(x, 0, 2, 5)), (Ranges{{20, 24}}));
  const TensorPtr swapped = concat({slice(x, 0, 5, 10), slice(x, 0, 0, 5)}, 0);
  EXPECT_EQ(ranges(swapped), (Ranges{{44, 40}, {4, 40}}));
  EXPECT_EQ(ranges(slice(reshape(swapped, {40}), 0, 18, 22)), (Ranges{{80, 4}, {4, 4}}));
  EXPECT_EQ(ranges(reshape(slice(reshape(x, {1, 10, 4}), 1, 1, 2), {4})), (Ranges{{12, 8}}));
  const TensorPtr other = leaf(plain, 2);  // the same place in another file
  EXPECT_EQ(ranges(concat({slice(x, 0, 0, 5), slice(other, 0, 5, 10)}, 0)), (Ranges{{4, 40}, {44, 40}}));
  EXPECT_FALSE(slice(x, 1, 0, 2)->in_files());
  EXPECT_FALSE(transpose(x, {1, 0})->in_files());
  EXPECT_FALSE(cast(x, DataType::float32)->in_files());
  EXPECT_FALSE(concat({x, make_filled(DataType::float16, {1, 4}, 0)}, 0)->in_files());
}

}  // namespace
}  // namespace mobius::ir

// One generic loop over (how to load, how to store), and the SIMD loops for the pairs of floats that weights are made of.
#include "mobius/ir/elements.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "mobius/base/convert.hpp"
#include "mobius/base/error.hpp"
#include "mobius/base/numeric.hpp"

namespace mobius::ir {
namespace {

// ── loading ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

template <class T>
T load_bits(const std::byte* in, std::size_t i) {
  T value;
  std::memcpy(&value, in + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
struct LoadNumber {
  T operator()(const std::byte* in, std::size_t i) const { return load_bits<T>(in, i); }
};
struct LoadBoolean {
  bool operator()(const std::byte* in, std::size_t i) const { return in[i] != std::byte{0}; }
};
struct LoadFloat16 {
  float operator()(const std::byte* in, std::size_t i) const { return float16_to_float(load_bits<std::uint16_t>(in, i)); }
};
struct LoadBfloat16 {
  float operator()(const std::byte* in, std::size_t i) const { return bfloat16_to_float(load_bits<std::uint16_t>(in, i)); }
};

// The narrow types, by table: all their values are exact in float.
using Table = std::array<float, 256>;
struct LoadByTable {
  const Table* table;
  unsigned bits;
  float operator()(const std::byte* in, std::size_t i) const {
    const std::size_t bit = i * bits;
    const unsigned code = std::to_integer<unsigned>(in[bit / 8]) >> (bit % 8);
    return (*table)[code & ((1u << bits) - 1u)];
  }
};

template <class Value>
Table make_table(Value value) {
  Table table{};
  for (unsigned code = 0; code < table.size(); ++code) table[code] = value(static_cast<std::uint8_t>(code));
  return table;
}

template <int bits>
float signed_value(std::uint8_t code) {
  const int low = code & ((1 << bits) - 1);
  return static_cast<float>(low >= 1 << (bits - 1) ? low - (1 << bits) : low);
}

const Table* table_of(DataType type) {
  static const Table e4m3fn = make_table(float8e4m3fn_to_float);
  static const Table e5m2 = make_table(float8e5m2_to_float);
  static const Table e4m3fnuz = make_table(float8e4m3fnuz_to_float);
  static const Table e5m2fnuz = make_table(float8e5m2fnuz_to_float);
  static const Table e8m0 = make_table(float8e8m0_to_float);
  static const Table e2m1 = make_table([](std::uint8_t code) { return float4e2m1_to_float(code & 0xF); });
  static const Table unsigned_integers = make_table([](std::uint8_t code) { return static_cast<float>(code); });
  static const Table int4 = make_table(signed_value<4>);
  static const Table int2 = make_table(signed_value<2>);
  switch (type) {
    case DataType::float8e4m3fn: return &e4m3fn;
    case DataType::float8e5m2: return &e5m2;
    case DataType::float8e4m3fnuz: return &e4m3fnuz;
    case DataType::float8e5m2fnuz: return &e5m2fnuz;
    case DataType::float8e8m0: return &e8m0;
    case DataType::float4e2m1: return &e2m1;
    case DataType::uint4:
    case DataType::uint2: return &unsigned_integers;
    case DataType::int4: return &int4;
    case DataType::int2: return &int2;
    default: return nullptr;
  }
}

// ── storing ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// The nearest float whose last bit is odd unless it is exact: rounding it once more, to fewer bits, gives what rounding the
// double once would have given.
float to_odd_float(double v) {
  const float f = static_cast<float>(v);
  if (std::isnan(v) || static_cast<double>(f) == v) return f;
  const bool away = std::fabs(static_cast<double>(f)) > std::fabs(v);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  return std::bit_cast<float>((away ? bits - 1 : bits) | 1u);
}

template <class T>
float to_odd_float(T v)
  requires std::is_integral_v<T>
{
  if constexpr (sizeof(T) <= 4) {
    return to_odd_float(static_cast<double>(v));
  } else {
    const bool negative = std::is_signed_v<T> && v < 0;
    auto magnitude = static_cast<std::uint64_t>(v);
    if (negative) magnitude = 0 - magnitude;
    // More bits than a double has: the lowest kept one says whether any below it was set.
    if ((magnitude >> 53) != 0) magnitude = ((magnitude >> 11) | static_cast<std::uint64_t>((magnitude & 0x7FF) != 0)) << 11;
    const auto exact = static_cast<double>(magnitude);
    return to_odd_float(negative ? -exact : exact);
  }
}

inline float to_odd_float(float v) { return v; }

template <class T, class V>
T to_number(V v) {
  if constexpr (std::is_floating_point_v<T> || !std::is_floating_point_v<V>) {
    return static_cast<T>(v);
  } else {
    // The bounds are powers of two, exact in V; the upper one is the first that does not fit.
    constexpr V upper = static_cast<V>(std::numeric_limits<T>::max() / 2 + 1) * 2;
    constexpr V lower = std::is_signed_v<T> ? -upper : V(0);
    if (std::isnan(v)) return 0;
    if (v >= upper) return std::numeric_limits<T>::max();
    if (v <= lower) return std::numeric_limits<T>::min();
    return static_cast<T>(v);
  }
}

template <class T>
void store_bits(std::byte* out, std::size_t i, T value) {
  std::memcpy(out + i * sizeof(T), &value, sizeof(T));
}

template <class T>
struct StoreNumber {
  template <class V>
  void operator()(std::byte* out, std::size_t i, V v) const {
    store_bits(out, i, to_number<T>(v));
  }
};
struct StoreBoolean {
  template <class V>
  void operator()(std::byte* out, std::size_t i, V v) const {
    out[i] = std::byte{v != V(0)};
  }
};
struct StoreFloat16 {
  template <class V>
  void operator()(std::byte* out, std::size_t i, V v) const {
    store_bits(out, i, float_to_float16(to_odd_float(v)));
  }
};
struct StoreBfloat16 {
  template <class V>
  void operator()(std::byte* out, std::size_t i, V v) const {
    store_bits(out, i, float_to_bfloat16(to_odd_float(v)));
  }
};

// ── pairing ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Calls f with the loader (or storer) of a type; false when there is none.
template <class F>
bool with_loader(DataType type, F f) {
  switch (type) {
    case DataType::float32: f(LoadNumber<float>()); return true;
    case DataType::float64: f(LoadNumber<double>()); return true;
    case DataType::float16: f(LoadFloat16()); return true;
    case DataType::bfloat16: f(LoadBfloat16()); return true;
    case DataType::int8: f(LoadNumber<std::int8_t>()); return true;
    case DataType::int16: f(LoadNumber<std::int16_t>()); return true;
    case DataType::int32: f(LoadNumber<std::int32_t>()); return true;
    case DataType::int64: f(LoadNumber<std::int64_t>()); return true;
    case DataType::uint8: f(LoadNumber<std::uint8_t>()); return true;
    case DataType::uint16: f(LoadNumber<std::uint16_t>()); return true;
    case DataType::uint32: f(LoadNumber<std::uint32_t>()); return true;
    case DataType::uint64: f(LoadNumber<std::uint64_t>()); return true;
    case DataType::boolean: f(LoadBoolean()); return true;
    default: break;
  }
  const Table* table = table_of(type);
  if (table) f(LoadByTable{table, static_cast<unsigned>(bit_width(type))});
  return table != nullptr;
}

template <class F>
bool with_storer(DataType type, F f) {
  switch (type) {
    case DataType::float32: f(StoreNumber<float>()); return true;
    case DataType::float64: f(StoreNumber<double>()); return true;
    case DataType::float16: f(StoreFloat16()); return true;
    case DataType::bfloat16: f(StoreBfloat16()); return true;
    case DataType::int8: f(StoreNumber<std::int8_t>()); return true;
    case DataType::int16: f(StoreNumber<std::int16_t>()); return true;
    case DataType::int32: f(StoreNumber<std::int32_t>()); return true;
    case DataType::int64: f(StoreNumber<std::int64_t>()); return true;
    case DataType::uint8: f(StoreNumber<std::uint8_t>()); return true;
    case DataType::uint16: f(StoreNumber<std::uint16_t>()); return true;
    case DataType::uint32: f(StoreNumber<std::uint32_t>()); return true;
    case DataType::uint64: f(StoreNumber<std::uint64_t>()); return true;
    case DataType::boolean: f(StoreBoolean()); return true;
    default: return false;
  }
}

bool is_aligned(const void* p, DataType type) { return reinterpret_cast<std::uintptr_t>(p) % static_cast<std::size_t>(bit_width(type) / 8) == 0; }

constexpr int pair(DataType from, DataType to) { return static_cast<int>(from) * 256 + static_cast<int>(to); }

bool convert_fast(DataType from, const std::byte* in, DataType to, std::byte* out, std::size_t n) {
  const auto* in16 = reinterpret_cast<const std::uint16_t*>(in);
  const auto* in32 = reinterpret_cast<const float*>(in);
  auto* out16 = reinterpret_cast<std::uint16_t*>(out);
  auto* out32 = reinterpret_cast<float*>(out);
  switch (pair(from, to)) {
    case pair(DataType::bfloat16, DataType::float32): convert_bfloat16_to_float(in16, out32, n); return true;
    case pair(DataType::float16, DataType::float32): convert_float16_to_float(in16, out32, n); return true;
    case pair(DataType::float32, DataType::bfloat16): convert_float_to_bfloat16(in32, out16, n); return true;
    case pair(DataType::float32, DataType::float16): convert_float_to_float16(in32, out16, n); return true;
    case pair(DataType::bfloat16, DataType::float16): convert_bfloat16_to_float16(in16, out16, n); return true;
    case pair(DataType::float16, DataType::bfloat16): convert_float16_to_bfloat16(in16, out16, n); return true;
    default: return false;
  }
}

}  // namespace

bool can_convert(DataType from, DataType to) {
  const auto ignore = [](auto) {};
  return with_loader(from, ignore) && with_storer(to, ignore);
}

void convert_elements(DataType from, const std::byte* in, std::size_t first, DataType to, std::byte* out, std::size_t n) {
  if (n == 0) return;
  if (bit_width(from) >= 8) {
    in += first * static_cast<std::size_t>(bit_width(from) / 8);
    first = 0;
    if (from == to) {
      std::memcpy(out, in, static_cast<std::size_t>(byte_size(to, n)));
      return;
    }
    if (bit_width(to) >= 8 && is_aligned(in, from) && is_aligned(out, to) && convert_fast(from, in, to, out, n)) return;
  }
  bool done = false;
  with_loader(from, [&](auto load) {
    done = with_storer(to, [&](auto store) {
      for (std::size_t i = 0; i < n; ++i) store(out, i, load(in, first + i));
    });
  });
  if (!done) fail(ErrorKind::unsupported, "cannot convert {} to {}", short_name(from), short_name(to));
}

std::uint64_t element_bits(DataType type, double value) {
  const Table* table = table_of(type);
  if (!table) {
    if (!can_convert(DataType::float64, type)) fail(ErrorKind::unsupported, "cannot make {} elements from numbers", short_name(type));
    std::uint64_t bits = 0;
    convert_elements(DataType::float64, reinterpret_cast<const std::byte*>(&value), 0, type, reinterpret_cast<std::byte*>(&bits), 1);
    return bits;
  }
  for (unsigned code = 0; code < 1u << bit_width(type); ++code) {
    const double candidate = static_cast<double>((*table)[code]);
    const bool equal = candidate == value && (is_integer(type) || std::signbit(candidate) == std::signbit(value));
    if (equal || (std::isnan(candidate) && std::isnan(value))) return code;
  }
  fail(ErrorKind::unsupported, "{} is not exact in {}", value, short_name(type));
}

}  // namespace mobius::ir

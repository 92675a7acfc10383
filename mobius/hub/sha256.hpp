// SHA-256 (FIPS 180-4), which names contents: fingerprints of sources, and the checksums that the Hub publishes.
//
//   Sha256 hash;
//   hash.add("abc");
//   hash.hex();                  // "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mobius::hub {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  std::string hex() const;  // of all that was added so far: 64 lower-case digits

 private:
  void block(const std::byte* bytes);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_ = {};  // the bytes of a block that is not full yet
  std::uint64_t length_ = 0;             // bytes
};

}  // namespace mobius::hub

// The examples of FIPS 180-4, and sizes around the edges of blocks.
#include "mobius/hub/sha256.hpp"

#include <gtest/gtest.h>

namespace mobius::hub {
namespace {

std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveWhatTheWholeGives) {
  const std::string text(300, 'x');
  for (std::size_t size = 0; size <= text.size(); ++size) {
    for (const std::size_t cut : {size / 3, size / 2, size}) {
      Sha256 hash;
      hash.add(text.substr(0, cut));
      hash.add(text.substr(cut, size - cut));
      ASSERT_EQ(hash.hex(), hash_of(text.substr(0, size))) << size << " cut at " << cut;
    }
  }
}

TEST(Sha256, LookingDoesNotChangeIt) {
  Sha256 hash;
  hash.add("a");
  EXPECT_EQ(hash.hex(), hash.hex());
  hash.add("bc");
  EXPECT_EQ(hash.hex(), hash_of("abc"));
}

}  // namespace
}  // namespace mobius::hub

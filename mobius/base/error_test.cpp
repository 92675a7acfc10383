// Tests of error.hpp.
#include "mobius/base/error.hpp"

#include <gtest/gtest.h>

namespace mobius {
namespace {

TEST(Error, CarriesKindAndMessage) {
  try {
    fail(ErrorKind::not_found, "{} has {} rows", "w", 3);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_found);
    EXPECT_STREQ(e.what(), "w has 3 rows");
    EXPECT_STREQ(e.within("a.bin").what(), "a.bin: w has 3 rows");
    EXPECT_EQ(e.within("a.bin").kind(), ErrorKind::not_found);
  }
}

TEST(Error, ControlCharactersAreWrittenOut) {
  try {
    fail(ErrorKind::corrupt_file, "tensor {}:\n  is extra", std::string_view("a\0b\x1b[31mü", 10));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "tensor a\\x00b\\x1b[31m\u00fc:\n  is extra");
  }
}

TEST(Error, ExpectStopsOnlyWhenBroken) {
  EXPECT_NO_THROW(expect(true, "fine"));
  try {
    expect(false, "reason");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::internal);
    EXPECT_STREQ(e.what(), "internal error: reason");
  }
}

}  // namespace
}  // namespace mobius

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

#include "mobius/base/option_name.hpp"

#include <gtest/gtest.h>

namespace mobius {
namespace {

TEST(OptionName, IsAFlagOnceTheProgramSaysSo) {
  EXPECT_EQ(option_name("ignore_extra"), "ignore_extra");
  call_options_flags();
  EXPECT_EQ(option_name("ignore_extra"), "--ignore-extra");
  EXPECT_EQ(option_name("force"), "--force");
}

}  // namespace
}  // namespace mobius

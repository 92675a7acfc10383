// Tests of log.hpp.
#include "mobius/base/log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mobius {
namespace {

TEST(Log, GoesToTheSink) {
  std::vector<std::pair<logging::Level, std::string>> lines;
  logging::Sink old = logging::set_sink([&](logging::Level level, std::string_view line) { lines.emplace_back(level, line); });
  logging::warning("{} of {}", 1, "two");
  logging::debug("x");
  logging::set_sink(old);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], std::pair(logging::Level::warning, std::string("1 of two")));
  EXPECT_EQ(lines[1].first, logging::Level::debug);
}

TEST(Log, DefaultWritesOnlyWarnings) {
  logging::Sink old = logging::set_sink({});
  ::testing::internal::CaptureStderr();
  logging::info("quiet");
  logging::warning("loud");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: loud\n");
  logging::set_sink(old);
}

TEST(Log, SinkMayLog) {
  int depth = 0;
  logging::Sink old = logging::set_sink([&](logging::Level, std::string_view) {
    if (++depth < 3) logging::info("again");
  });
  logging::info("once");
  logging::set_sink(old);
  EXPECT_EQ(depth, 3);
}

}  // namespace
}  // namespace mobius

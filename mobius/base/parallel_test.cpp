// Tests of parallel.hpp.
#include "mobius/base/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {

class Parallel : public ::testing::Test {
 protected:
  void TearDown() override {
    set_thread_count(0);
    ::unsetenv("MOBIUS_THREADS");
  }
};

TEST_F(Parallel, VisitsEachItemOnce) {
  for (const std::size_t threads : {1u, 2u, 7u}) {
    set_thread_count(threads);
    for (const std::size_t n : {0u, 1u, 2u, 1000u}) {
      std::vector<std::atomic<int>> visits(n);
      parallel_for(n, [&](std::size_t i) { ++visits[i]; });
      for (const auto& v : visits) ASSERT_EQ(v, 1);
    }
  }
}

TEST_F(Parallel, UsesSeveralThreads) {
  set_thread_count(3);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  parallel_for(3, [&](std::size_t) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::unique_lock lock(mutex);
    seen.insert(std::this_thread::get_id());
    // Every item waits for the others, which only other threads can bring.
    while (seen.size() < 3 && std::chrono::steady_clock::now() < until) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  });
  EXPECT_EQ(seen.size(), 3u);
}

TEST_F(Parallel, OneThreadRunsInlineInOrder) {
  set_thread_count(1);
  std::vector<std::size_t> order;
  const auto self = std::this_thread::get_id();
  parallel_for(5, [&](std::size_t i) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST_F(Parallel, RethrowsTheFirstErrorAndStops) {
  for (const std::size_t threads : {1u, 4u}) {
    set_thread_count(threads);
    std::atomic<int> visits = 0;
    try {
      parallel_for(100000, [&](std::size_t i) {
        ++visits;
        if (i == 10) fail(ErrorKind::io, "item {}", i);
      });
      FAIL();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "item 10");
    }
    EXPECT_LT(visits, 100000);
  }
}

TEST_F(Parallel, InnerLoopsStayOnTheirThread) {
  set_thread_count(4);
  parallel_for(4, [&](std::size_t) {
    const auto self = std::this_thread::get_id();
    parallel_for(8, [&](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
  });
}

TEST_F(Parallel, ThreadCountHasThreeSources) {
  EXPECT_GE(thread_count(), 1u);
  ::setenv("MOBIUS_THREADS", "5", 1);
  EXPECT_EQ(thread_count(), 5u);
  set_thread_count(3);
  EXPECT_EQ(thread_count(), 3u);
  set_thread_count(0);
  const std::size_t automatic = (::unsetenv("MOBIUS_THREADS"), thread_count());
  for (const char* bad : {"", "0", "-1", "many", "99999999999999999999"}) {
    ::setenv("MOBIUS_THREADS", bad, 1);
    EXPECT_EQ(thread_count(), automatic) << bad;
  }
}

}  // namespace
}  // namespace mobius

// For tests: the message of the Error that something ends with, and its kind.
//
//   EXPECT_THAT(error_of([] { get_ep("rocm"); }), HasSubstr("Unknown execution provider"));
//   EXPECT_EQ(error_of([&] { file.read(0); }, ErrorKind::io), "...");       // its kind is checked too
//   EXPECT_EQ(kind_of([&] { file.read(0); }), ErrorKind::io);                // nullopt where there is no error
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "mobius/base/error.hpp"

namespace mobius {

template <class F>
std::string error_of(F&& f, std::optional<ErrorKind> kind = {}) {
  try {
    f();
  } catch (const Error& e) {
    if (kind) {
      EXPECT_EQ(to_string(e.kind()), to_string(*kind)) << e.what();
    }
    return e.what();
  }
  return "no error";
}

template <class F>
std::optional<ErrorKind> kind_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.kind();
  }
  return std::nullopt;
}

}  // namespace mobius

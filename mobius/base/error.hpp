// How everything here fails: one exception type that says what was found, what was expected, and where.
//
//   if (rows != want) fail(ErrorKind::invalid_argument, "{} has {} rows, expected {}", name, rows, want);
//
//   try { read(shard); }
//   catch (Error& e) { throw e.within(shard.string()); }     // "model-00002.safetensors: header is truncated"
//
// "Did not match", "not this format", "the EP lacks it" are values (std::optional, reports), never exceptions.
#pragma once
#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>

namespace mobius {

enum class ErrorKind {
  invalid_argument,  // the caller's value is outside what is allowed (Python: ValueError)
  not_found,         // a file, tensor or name does not exist (KeyError / FileNotFoundError)
  unsupported,       // understood, and refused by name (NotImplementedError)
  corrupt_file,      // bytes from outside that contradict their own format (ValueError)
  io,                // the operating system said no (OSError)
  cancelled,         // the user stopped it (KeyboardInterrupt)
  internal,          // a defect of this program (RuntimeError)
};

std::string_view to_string(ErrorKind kind);

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  ErrorKind kind() const { return kind_; }
  const char* what() const noexcept override { return message_.c_str(); }

  // The same error with its place put in front: "place: message".
  Error within(std::string_view place) const { return Error(kind_, fmt::format("{}: {}", place, message_)); }

 private:
  ErrorKind kind_;
  std::string message_;
};

[[noreturn]] void fail_with(ErrorKind kind, fmt::string_view format, fmt::format_args args);

// Throws Error; the only way this library throws.
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  fail_with(kind, format, fmt::make_format_args(args...));
}

// A defect of ours, not of the input: stops with the given reason when `holds` is false.
inline void expect(bool holds, std::string_view reason) {
  if (!holds) fail(ErrorKind::internal, "internal error: {}", reason);
}

}  // namespace mobius

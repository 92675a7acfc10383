// What a clone made without Git LFS has in the place of each large file: a few lines that name it.
//
//   refuse_lfs_pointer(file->bytes());     // Error corrupt_file that says so, in place of "not a safetensors file"
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "mobius/base/error.hpp"

namespace mobius {

inline void refuse_lfs_pointer(std::span<const std::byte> file) {
  constexpr std::string_view start = "version https://git-lfs.github.com/spec/";
  if (std::string_view(reinterpret_cast<const char*>(file.data()), file.size()).starts_with(start))
    fail(ErrorKind::corrupt_file, "is a Git LFS pointer in the place of the file; fetch it with: git lfs pull");
}

}  // namespace mobius

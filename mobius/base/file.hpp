// Files as the operating system gives them: memory maps, positioned writes, atomic replacement.
// Everything here that differs between Linux, macOS and Windows stays behind these functions.
//
//   auto file = MappedFile::open("model.safetensors");
//   std::span<const std::byte> bytes = file->bytes();           // nothing is read until touched
//
//   OutputFile out("model.onnx.data", size);                     // space is reserved: a full disk fails here
//   out.write_at(0, bytes);
//   out.copy_at(4096, *file, 128, 1 << 30);                      // shared extents where the file system has them
//   out.close();
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mobius {

namespace fs = std::filesystem;

// A file mapped read-only for its whole life. Sharing it keeps the views into it valid.
class MappedFile {
 public:
  // Errors: not_found (no such file), io (not readable, a folder, ...), each with the path.
  static std::shared_ptr<const MappedFile> open(const fs::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const fs::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), static_cast<std::size_t>(size_)}; }

  // Copies [offset, offset + out.size()) into `out` without touching the map (memory stays flat).
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;
  // Gives mapped pages back; they are read again when next touched.
  void release(std::uint64_t offset, std::uint64_t length) const;

 private:
  friend class OutputFile;
  MappedFile() = default;
  fs::path path_;
  void* data_ = nullptr;
  std::uint64_t size_ = 0;
  int fd_ = -1;
};

// A new file of known size, written at positions, from many threads at once.
class OutputFile {
 public:
  // Errors: io when the path exists already, can't be made, or the disk lacks `size` bytes.
  OutputFile(const fs::path& path, std::uint64_t size);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Copies a range of another file: shared extents where the file system can, else through a buffer.
  void copy_at(std::uint64_t offset, const MappedFile& source, std::uint64_t source_offset, std::uint64_t length);
  // Reports what delayed writes had to say. The destructor closes silently.
  void close();

 private:
  bool clone_range(std::uint64_t offset, const MappedFile& source, std::uint64_t source_offset, std::uint64_t length);
  void copy_through_buffer(std::uint64_t offset, const MappedFile& source, std::uint64_t source_offset, std::uint64_t length);

  fs::path path_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
  std::atomic<bool> can_clone_ = true;  // until the file system says no
};

std::string read_text_file(const fs::path& path, std::uint64_t max_size = 1ull << 30);
void write_text_file(const fs::path& path, std::string_view text);
void copy_file_contents(const fs::path& from, const fs::path& to);  // follows symlinks; the copy is a regular file

// Puts `replacement` (a file or folder) in the place of `target` in one step; what was there is removed afterwards.
// A crash leaves either the old or the new, never a mixture.
void replace_path(const fs::path& replacement, const fs::path& target);
// A path beside `target` that does not exist yet: ".<name>.<process id>.tmp" (".<name>.<process id>.<n>.tmp" when that is taken).
// Errors when the folder is absent or not writable.
fs::path temporary_sibling(const fs::path& target);
// Removes what killed runs left beside `target`: temporary siblings whose process is gone.
void remove_stale_siblings(const fs::path& target);

std::optional<std::uint64_t> free_disk_space(const fs::path& path);  // of the nearest existing parent
bool same_file(const fs::path& a, const fs::path& b);                // also through symlinks; false when one is absent
std::optional<std::string> environment(const char* name);
std::uint64_t peak_memory_bytes();  // of this process (peak resident set), 0 where unknown

// A shared library opened at run time; closed with its last owner.
class DynamicLibrary {
 public:
  // nullptr when it can't be loaded; `why` then holds the system's reason.
  static std::shared_ptr<DynamicLibrary> open(const std::string& path, std::string* why = nullptr);
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;
  void* symbol(const char* name) const;  // nullptr when absent

 private:
  DynamicLibrary() = default;
  void* handle_ = nullptr;
};

}  // namespace mobius

// Files on POSIX systems: maps, positioned writes, copies.
#include "mobius/base/file.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/fs.h>
#include <sys/ioctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "mobius/base/error.hpp"

namespace mobius {
namespace {

constexpr std::uint64_t buffer_size = 256 << 10;  // stays in a core's cache between the read and the write
constexpr std::uint64_t clone_alignment = 4096;
constexpr std::uint64_t smallest_clone = 64 << 10;  // below this a shared extent costs more than it saves

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_io(const fs::path& path, std::string_view what, int error) {
  fail(error == ENOENT ? ErrorKind::not_found : ErrorKind::io, "{}: {}: {}", path.string(), what, reason(error));
}

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

int open_retrying(const fs::path& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

// Opens for reading, without waiting: opening a pipe that nobody writes would block for ever.
int open_regular(const fs::path& path, struct stat& info) {
  Descriptor fd(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (fd.get() < 0) fail_io(path, "cannot open", errno);
  if (::fstat(fd.get(), &info) != 0) fail_io(path, "cannot open", errno);
  if (S_ISDIR(info.st_mode)) fail(ErrorKind::io, "{}: is a folder, expected a file", path.string());
  if (!S_ISREG(info.st_mode)) fail(ErrorKind::io, "{}: is not a regular file", path.string());
  return fd.release();
}

void write_fully(int fd, const fs::path& path, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_io(path, fmt::format("cannot write {} bytes at {}", bytes.size(), offset), n < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

bool means_unsupported(int error) {
  return error == EOPNOTSUPP || error == ENOTSUP || error == ENOSYS || error == EINVAL || error == EXDEV || error == ENOTTY || error == EPERM ||
         error == EBADF || error == ETXTBSY;
}

// Takes the space now, so that a full disk is found out before hours of work. Gives errno, or 0.
int reserve(int fd, std::uint64_t size) {
  if (size == 0) return 0;
#ifdef __linux__
  int result = -1;
  do result = ::fallocate(fd, 0, 0, static_cast<off_t>(size));
  while (result != 0 && errno == EINTR);
  if (result == 0) return 0;
  if (!means_unsupported(errno)) return errno;
#endif
  struct statvfs info {};
  if (::fstatvfs(fd, &info) == 0 && static_cast<std::uint64_t>(info.f_bavail) < size / info.f_frsize) return ENOSPC;
  return ::ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
}

}  // namespace

// ── MappedFile ───────────────────────────────────────────────────────────────────────────────────────────────────────────

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  struct stat info {};
  Descriptor fd(open_regular(path, info));

  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  if (info.st_size > 0) {
    void* data = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) fail_io(path, "cannot map", errno);
    file->data_ = data;
    file->size_ = static_cast<std::uint64_t>(info.st_size);
    ::madvise(data, static_cast<std::size_t>(info.st_size), MADV_SEQUENTIAL);
  }
  file->fd_ = fd.release();
  return file;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, static_cast<std::size_t>(size_));
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    fail(ErrorKind::corrupt_file, "{}: bytes {}..{} lie beyond its end ({} bytes)", path_.string(), offset, offset + out.size(), size_);
  }
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path_, "cannot read", errno);
    if (n == 0) fail(ErrorKind::io, "{}: the file became shorter than {} bytes while it was read", path_.string(), size_);
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void MappedFile::release(std::uint64_t offset, std::uint64_t length) const {
  if (!data_ || offset >= size_) return;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t end = offset + std::min(length, size_ - offset);
  const std::uint64_t first = (offset + page - 1) / page * page;
  const std::uint64_t last = end == size_ ? end : end / page * page;
  if (first < last) ::madvise(static_cast<std::byte*>(data_) + first, static_cast<std::size_t>(last - first), MADV_DONTNEED);
}

// ── OutputFile ───────────────────────────────────────────────────────────────────────────────────────────────────────────

OutputFile::OutputFile(const fs::path& path, std::uint64_t size) : path_(path), size_(size) {
  if (size > static_cast<std::uint64_t>(INT64_MAX)) fail(ErrorKind::invalid_argument, "{}: cannot make a file of {} bytes", path.string(), size);
  Descriptor fd(open_retrying(path, O_RDWR | O_CREAT | O_EXCL, 0666));
  // A missing folder is an I/O error here: nothing was looked up.
  if (fd.get() < 0) fail(ErrorKind::io, "{}: cannot create: {}", path.string(), reason(errno));
  if (const int error = reserve(fd.get(), size); error != 0) {
    const auto free = free_disk_space(path);
    ::unlink(path.c_str());
    fail(ErrorKind::io, "{}: cannot reserve {} bytes: {} ({} bytes are free)", path.string(), size, reason(error), free ? std::to_string(*free) : "unknown");
  }
  fd_ = fd.release();
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  expect(fd_ >= 0, "write to a closed file");
  expect(offset <= size_ && bytes.size() <= size_ - offset, "write beyond the end of an output file");
  write_fully(fd_, path_, offset, bytes);
}

void OutputFile::copy_at(std::uint64_t offset, const MappedFile& source, std::uint64_t source_offset, std::uint64_t length) {
  expect(fd_ >= 0, "write to a closed file");
  expect(offset <= size_ && length <= size_ - offset, "write beyond the end of an output file");
  if (source_offset > source.size() || length > source.size() - source_offset) {
    fail(ErrorKind::corrupt_file, "{}: bytes {}..{} lie beyond its end ({} bytes)", source.path().string(), source_offset, source_offset + length,
         source.size());
  }
  // Extents can be shared only in whole blocks, at the same place within a block.
  const std::uint64_t head = (clone_alignment - offset % clone_alignment) % clone_alignment;
  const bool aligned = offset % clone_alignment == source_offset % clone_alignment;
  if (can_clone_ && aligned && length >= head + smallest_clone) {
    const std::uint64_t whole = (length - head) / clone_alignment * clone_alignment;
    if (clone_range(offset + head, source, source_offset + head, whole)) {
      const std::uint64_t tail = head + whole;
      copy_through_buffer(offset, source, source_offset, head);
      copy_through_buffer(offset + tail, source, source_offset + tail, length - tail);
      return;
    }
    can_clone_ = false;
  }
  copy_through_buffer(offset, source, source_offset, length);
}

bool OutputFile::clone_range([[maybe_unused]] std::uint64_t offset, [[maybe_unused]] const MappedFile& source, [[maybe_unused]] std::uint64_t source_offset,
                             [[maybe_unused]] std::uint64_t length) {
#ifdef FICLONERANGE
  struct file_clone_range range {};
  range.src_fd = source.fd_;
  range.src_offset = source_offset;
  range.src_length = length;
  range.dest_offset = offset;
  return ::ioctl(fd_, FICLONERANGE, &range) == 0;
#else
  return false;
#endif
}

// A small buffer is twice as fast here as copy_file_range, which moves page by page through a pipe, and as a buffer of megabytes, which
// goes through main memory twice.
void OutputFile::copy_through_buffer(std::uint64_t offset, const MappedFile& source, std::uint64_t source_offset, std::uint64_t length) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(length, buffer_size)));
  for (std::uint64_t done = 0; done < length;) {
    const std::span<std::byte> part(buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(length - done, buffer.size())));
    source.read_at(source_offset + done, part);
    write_at(offset + done, part);
    done += part.size();
  }
}

void OutputFile::close() {
  if (fd_ < 0) return;
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail_io(path_, "cannot finish writing", errno);
}

// ── small files and the rest ─────────────────────────────────────────────────────────────────────────────────────────────

std::string read_text_file(const fs::path& path, std::uint64_t max_size) {
  struct stat info {};
  const Descriptor fd(open_regular(path, info));
  std::string text;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > max_size) fail(ErrorKind::corrupt_file, "{}: has {} bytes, expected at most {}", path.string(), size, max_size);
  text.reserve(static_cast<std::size_t>(size));
  std::vector<char> buffer(64 << 10);
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path, "cannot read", errno);
    if (n == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    if (text.size() > max_size) fail(ErrorKind::corrupt_file, "{}: has more than {} bytes", path.string(), max_size);
  }
}

void write_text_file(const fs::path& path, std::string_view text) {
  Descriptor fd(open_retrying(path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
  if (fd.get() < 0) fail(ErrorKind::io, "{}: cannot create: {}", path.string(), reason(errno));
  write_fully(fd.get(), path, 0, std::as_bytes(std::span(text)));
  if (::close(fd.release()) != 0 && errno != EINTR) fail_io(path, "cannot finish writing", errno);
}

void copy_file_contents(const fs::path& from, const fs::path& to) {
  const auto source = MappedFile::open(from);
  std::error_code ignored;
  const auto existing = fs::symlink_status(to, ignored);
  if (fs::is_directory(existing)) fail(ErrorKind::io, "{}: is a folder, expected a file", to.string());
  if (fs::is_symlink(existing) || fs::exists(existing)) {
    if (!fs::is_symlink(existing) && same_file(from, to)) return;
    fs::remove(to, ignored);
  }
  OutputFile out(to, source->size());
  out.copy_at(0, *source, 0, source->size());
  out.close();
}

std::optional<std::uint64_t> free_disk_space(const fs::path& path) {
  std::error_code error;
  fs::path at = fs::absolute(path, error);
  if (error) return std::nullopt;
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  struct statvfs info {};
  if (::statvfs(at.c_str(), &info) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

bool same_file(const fs::path& a, const fs::path& b) {
  struct stat x {};
  struct stat y {};
  return ::stat(a.c_str(), &x) == 0 && ::stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::uint64_t peak_memory_bytes() {
#ifdef __linux__
  // Not getrusage: its peak also counts what the process was before exec.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/status", "re"), [](std::FILE* f) { return std::fclose(f); });
  char line[256];
  while (file && std::fgets(line, sizeof(line), file.get())) {
    unsigned long long kilobytes = 0;
    if (std::sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1) return kilobytes * 1024;
  }
#endif
  struct rusage usage {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
#ifdef __APPLE__
  return static_cast<std::uint64_t>(usage.ru_maxrss);
#else
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

std::shared_ptr<DynamicLibrary> DynamicLibrary::open(const std::string& path, std::string* why) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* message = ::dlerror();
    if (why) *why = message ? message : "unknown reason";
    return nullptr;
  }
  std::shared_ptr<DynamicLibrary> library(new DynamicLibrary);
  library->handle_ = handle;
  return library;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_) ::dlclose(handle_);
}

void* DynamicLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace mobius

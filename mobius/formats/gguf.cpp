// Opening GGUF models, split ones included, and looking things up in them.
#include "mobius/formats/gguf.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mobius/base/error.hpp"
#include "mobius/formats/gguf_tensor.hpp"

namespace mobius::formats {
namespace {

GgufHeader parse(const MappedFile& file) {
  try {
    return parse_gguf(file.bytes());
  } catch (const Error& e) {
    throw e.within(file.path().string());
  }
}

std::optional<std::int64_t> integer_of(const GgufHeader& header, std::string_view key) {
  const GgufValue* value = header.find(key);
  const auto* n = value ? std::get_if<std::int64_t>(value) : nullptr;
  return n ? std::optional(*n) : std::nullopt;
}

std::string part_suffix(std::int64_t part, std::int64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", part, count); }

[[noreturn]] void wrong_kind(std::string_view key, const GgufValue& found, std::string_view expected) {
  fail(ErrorKind::corrupt_file, "metadata {} is {}, expected {}", key, kind(found), expected);
}

}  // namespace

std::shared_ptr<const GgufFile> GgufFile::open(const fs::path& path) {
  std::shared_ptr<GgufFile> gguf(new GgufFile);
  gguf->files_.push_back(MappedFile::open(path));
  gguf->header_ = parse(*gguf->files_.front());

  const std::int64_t count = integer_of(gguf->header_, "split.count").value_or(1);
  const std::int64_t number = integer_of(gguf->header_, "split.no").value_or(0);
  if (count > 1 && number != 0) {
    std::string name = path.filename().string();
    const std::string suffix = part_suffix(number + 1, count);
    if (name.ends_with(suffix)) name.replace(name.size() - suffix.size(), suffix.size(), part_suffix(1, count));
    fail(ErrorKind::invalid_argument, "{} is part {} of {} of a split model; open the first part, {}", path.string(), number + 1, count, name);
  }
  if (count > 1) gguf->add_parts(path, count);

  auto& tensors = gguf->header_.tensors;
  gguf->by_name_.resize(tensors.size());
  std::iota(gguf->by_name_.begin(), gguf->by_name_.end(), std::size_t{0});
  std::sort(gguf->by_name_.begin(), gguf->by_name_.end(), [&](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; });
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const GgufTensorInfo& t = tensors[gguf->by_name_[i]];
    if (t.name == tensors[gguf->by_name_[i - 1]].name) fail(ErrorKind::corrupt_file, "{}: tensor {} is there in two parts", path.string(), t.name);
  }
  try {
    if (const std::string* architecture = gguf->string("general.architecture")) gguf->architecture_ = *architecture;
  } catch (const Error& e) {
    throw e.within(path.string());
  }
  return gguf;
}

void GgufFile::add_parts(const fs::path& first, std::int64_t count) {
  if (count > 65535) fail(ErrorKind::corrupt_file, "{}: split.count is {}", first.string(), count);
  const std::string name = first.filename().string(), suffix = part_suffix(1, count);
  if (!name.ends_with(suffix)) {
    fail(ErrorKind::not_found, "{} is the first of {} parts, but its name does not end in {}: the other parts can't be found", first.string(), count, suffix);
  }
  const std::string stem = name.substr(0, name.size() - suffix.size());
  for (std::int64_t part = 2; part <= count; ++part) {
    const fs::path path = first.parent_path() / (stem + part_suffix(part, count));
    std::error_code ignored;
    if (!fs::exists(path, ignored)) fail(ErrorKind::not_found, "{} is missing: part {} of {} of {}", path.string(), part, count, first.string());
    files_.push_back(MappedFile::open(path));
    GgufHeader header = parse(*files_.back());
    const auto number = integer_of(header, "split.no"), total = integer_of(header, "split.count");
    if (number != part - 1 || total != count) {
      fail(ErrorKind::corrupt_file, "{}: says that it is part {} of {}, expected {} of {}", path.string(), number.value_or(0) + 1, total.value_or(1), part,
           count);
    }
    for (GgufTensorInfo& t : header.tensors) {
      t.file = files_.size() - 1;
      header_.tensors.push_back(std::move(t));
    }
  }
  const auto expected = integer_of(header_, "split.tensors.count");
  if (expected && *expected != static_cast<std::int64_t>(header_.tensors.size())) {
    fail(ErrorKind::corrupt_file, "{}: the parts hold {} tensors, expected {}", first.string(), header_.tensors.size(), *expected);
  }
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* n = std::get_if<std::int64_t>(value)) return *n;
  const auto* x = std::get_if<double>(value);
  if (!x || std::abs(*x) > 1e15 || *x != std::floor(*x)) wrong_kind(key, *value, "an integer");
  return static_cast<std::int64_t>(*x);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* x = std::get_if<double>(value)) return *x;
  const auto* n = std::get_if<std::int64_t>(value);
  if (!n) wrong_kind(key, *value, "a number");
  return static_cast<double>(*n);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  const auto* b = std::get_if<bool>(value);
  if (!b) wrong_kind(key, *value, "a boolean");
  return *b;
}

const std::string* GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return nullptr;
  const auto* s = std::get_if<std::string>(value);
  if (!s) wrong_kind(key, *value, "a string");
  return s;
}

const std::vector<std::string>* GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return nullptr;
  const auto* a = std::get_if<GgufArray>(value);
  if (!a || a->strings.size() != a->size) wrong_kind(key, *value, "an array of strings");
  return &a->strings;
}

const std::vector<std::int64_t>* GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return nullptr;
  const auto* a = std::get_if<GgufArray>(value);
  if (!a || a->integers.size() != a->size) wrong_kind(key, *value, "an array of integers");
  return &a->integers;
}

const std::vector<double>* GgufFile::numbers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return nullptr;
  const auto* a = std::get_if<GgufArray>(value);
  if (!a || a->numbers.size() != a->size) wrong_kind(key, *value, "an array of floats");
  return &a->numbers;
}

const GgufTensorInfo* GgufFile::find_tensor(std::string_view name) const {
  const auto& all = header_.tensors;
  auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name, [&](std::size_t i, std::string_view n) { return all[i].name < n; });
  return it != by_name_.end() && all[*it].name == name ? &all[*it] : nullptr;
}

ir::TensorPtr GgufFile::tensor(std::string_view name) const {
  const GgufTensorInfo* t = find_tensor(name);
  if (!t) return nullptr;
  const auto& file = files_[t->file];
  const GgmlTypeInfo* type = find_ggml_type(t->type);
  if (!type || !type->can_read()) {
    fail(ErrorKind::unsupported, "{} is stored as {}, which is not supported; these are: {} ({})", name, ggml_type_name(t->type), readable_ggml_types(),
         file->path().string());
  }
  if (type->is_plain()) return ir::mapped_tensor(type->plain, t->dims, file, t->offset);
  return quantized_tensor(type->type, t->dims, file, t->offset);
}

}  // namespace mobius::formats

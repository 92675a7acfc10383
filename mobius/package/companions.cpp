// Reading and remembering companions.
#include "mobius/package/companions.hpp"

#include <algorithm>

#include "mobius/base/error.hpp"

namespace mobius::package {
namespace {

constexpr std::uint64_t max_text = 256 << 20;  // the largest tokenizer.json files have some 40 MB

Json parse_object(std::string_view name, const std::string& text) try {
  Json json = Json::parse(text);
  if (!json.is_object()) fail(ErrorKind::corrupt_file, "found {}, expected a JSON object", json.kind());
  return json;
} catch (const Error& e) {
  throw e.within(name);
}

}  // namespace

const PackageFile* Companions::find(std::string_view name) const {
  const auto it = std::ranges::find(package_.files(), name, &PackageFile::name);
  return it == package_.files().end() ? nullptr : &*it;
}

std::optional<std::string> Companions::text(std::string_view name) const {
  const auto* file = find(name);
  if (!file) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&file->content)) return *text;
  return read_text_file(std::get<fs::path>(file->content), max_text);
}

const Json* Companions::json(std::string_view name) const {
  if (name == "config.json") return package_.config.is_object() ? &package_.config : nullptr;
  if (const auto known = parsed_.find(name); known != parsed_.end()) return &known->second;
  const auto content = text(name);
  if (!content) return nullptr;
  return &parsed_.emplace(name, parse_object(name, *content)).first->second;
}

}  // namespace mobius::package

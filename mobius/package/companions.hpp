// Companions: the small files beside a package's graphs, read when something asks for them.
//
//   const Companions files(package);
//   if (const Json* generation = files.json("generation_config.json")) ...
//   files.json("config.json")                 // the package's own config, also where it is no file
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "mobius/base/json.hpp"
#include "mobius/package/package.hpp"

namespace mobius::package {

class Companions {
 public:
  explicit Companions(const ModelPackage& package) : package_(package) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::optional<std::string> text(std::string_view name) const;
  // An object; nullptr when there is no such file. Errors, each with the file's name: corrupt_file for what is no JSON object.
  const Json* json(std::string_view name) const;

 private:
  const PackageFile* find(std::string_view name) const;

  const ModelPackage& package_;
  mutable std::map<std::string, Json, std::less<>> parsed_;
};

}  // namespace mobius::package

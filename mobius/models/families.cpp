// Look-up in the table of families.
#include "mobius/models/family.hpp"

#include <algorithm>

#include "mobius/base/error.hpp"

namespace mobius {

std::vector<Family> family_table();  // generated from the names of models/*.cpp

const std::vector<Family>& families() {
  static const auto table = family_table();
  return table;
}

const Family* find_family(std::string_view model_type) {
  for (const auto& f : families())
    if (std::ranges::find(f.types, model_type) != f.types.end()) return &f;
  return nullptr;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const Family& require_family(std::string_view model_type) {
  if (const auto* f = find_family(model_type)) return *f;
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const auto& f : families())
    for (auto t : f.types) near.emplace_back(edit_distance(model_type.substr(0, 64), t), t);
  std::ranges::sort(near);
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, near.size()); ++i) names += (i ? ", " : "") + std::string(near[i].second);
  fail(ErrorKind::unsupported, "unknown model_type '{}'; the nearest known: {} (mobius list models shows all)", model_type, names);
}

}  // namespace mobius

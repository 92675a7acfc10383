// The fields of EpCapabilities as a table: what reads and writes them as JSON, and lists them, is made from it.
//
//   for (const EpField& field : ep_fields()) fmt::print("{}: {}\n", field.name, field.help);
//   register_ep(ep_from_json(Json::parse(text), "my-ep.json"));
#pragma once
#include <span>
#include <string_view>
#include <variant>

#include "mobius/base/json.hpp"
#include "mobius/ep/capabilities.hpp"

namespace mobius {

struct EpField {
  using Member = std::variant<std::string EpCapabilities::*, bool EpCapabilities::*, int EpCapabilities::*, std::int64_t EpCapabilities::*,
                              ir::DataType EpCapabilities::*, DataTypeSet EpCapabilities::*, std::map<std::string, std::string> EpCapabilities::*,
                              std::optional<std::uint64_t> EpCapabilities::*, std::optional<std::string> EpCapabilities::*>;
  std::string_view name;
  Member member;
  std::string_view help;
};
std::span<const EpField> ep_fields();            // in the order of the struct
std::string_view kind_of(const EpField& field);  // "true or false", "a list of dtypes", ...
Json value_of(const EpField& field, const EpCapabilities& ep);

Json to_json(const EpCapabilities& ep);  // all fields

// Fields that are left out have their defaults. Errors invalid_argument, each with `place`: no name, an unknown field (with the known
// ones), a value of another kind, a dtype that is none.
EpCapabilities ep_from_json(const Json& json, std::string_view place);

}  // namespace mobius

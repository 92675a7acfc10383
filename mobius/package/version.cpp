// MOBIUS_VERSION comes from settings.cmake: of all files, only this one is built again when the version changes.
#include "mobius/package/version.hpp"

namespace mobius {

std::string_view version() { return MOBIUS_VERSION; }

}  // namespace mobius

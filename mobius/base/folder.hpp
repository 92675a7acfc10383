// What is at a path, and in a folder.
//
//   for (const std::string& name : entries_of(folder)) use(folder / name);
#pragma once
#include <string>
#include <vector>

#include "mobius/base/file.hpp"

namespace mobius {

// Names of the entries of a folder, sorted. A dangling link is an entry too. Error io: the folder can't be read.
std::vector<std::string> entries_of(const fs::path& folder);
// The same, but only those that can be read: of a folder that can't be, none.
std::vector<std::string> readable_entries_of(const fs::path& folder);

// Whether there is something at `path`, through links; false where nobody may look.
bool is_there(const fs::path& path);

// Whether another file system begins at this folder, which can't be renamed or replaced then. A folder that is shown at a second place of
// the same file system isn't told.
bool is_mount_point(const fs::path& folder);

}  // namespace mobius

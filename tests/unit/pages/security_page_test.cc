// docs/security.md says which capabilities the mount helper keeps, and why: what the source says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/capability.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/file/path.h"
#include "mounter/guard/guarded_mounter.h"
#include "mounter/process/privileges.h"
#include "plugin/config/config.h"

namespace mooring {
namespace {

std::string NameOf(int capability) {
  char* const text = ::cap_to_name(capability);
  std::string name = text == nullptr ? "" : text;
  ::cap_free(text);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  return name;
}

TEST(SecurityPageTest, NamesThePrivilegesOfTheHelperAndNoOthers) {
  std::ifstream file(MOORING_SOURCE_DIR "/docs/security.md");
  std::vector<std::string> rows, wanted;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `CAP_")) rows.push_back(line);
  }
  for (const Privilege& privilege : HelperPrivileges()) {
    wanted.push_back(fmt::format("| `{}` | {} |", NameOf(privilege.capability), privilege.why));
  }
  EXPECT_EQ(rows, wanted);
}

TEST(SecurityPageTest, NamesTheDirectoriesInWhichNothingIsMounted) {
  std::ifstream file(MOORING_SOURCE_DIR "/docs/security.md");
  std::ostringstream page;
  page << file.rdbuf();
  for (const std::string& tree : ForbiddenTrees(HelperPolicy())) {
    EXPECT_NE(page.str().find(fmt::format("`{}`", tree)), std::string::npos) << tree;
  }
}

// The defaults of the flag lie in none of them, or nothing would be mounted there.
TEST(SecurityPageTest, TheUsualMountRootsAreInNoDirectoryOfTheSystem) {
  for (const std::string& root : UsualMountRoots()) {
    for (const std::string& tree : ForbiddenTrees(HelperPolicy())) EXPECT_FALSE(IsBelow(root, tree)) << root;
  }
}

}  // namespace
}  // namespace mooring

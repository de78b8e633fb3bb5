// docs/security.md names the capabilities that the mounter keeps, with their reasons.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/capability.h>

#include <algorithm>
#include <cctype>
#include <fstream>
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

// Otherwise nothing could be mounted in the default of --mount-root.
TEST(HelperPolicyTest, AllowsTheUsualMountRoots) {
  for (const std::string& root : UsualMountRoots()) {
    for (const std::string& tree : ForbiddenTrees(HelperPolicy())) EXPECT_FALSE(IsBelow(root, tree)) << root;
  }
}

}  // namespace
}  // namespace mooring

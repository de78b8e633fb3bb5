#include "manager/state/keys.h"

#include <set>

#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

std::vector<std::string> HostileNames() {
  std::string dots(255, '.'), slashes(255, '/'), other_slashes(254, '/');
  return {".",
          "..",
          "...",
          "../x",
          "/",
          "//",
          "a/b",
          "a%2Fb",
          "a b",
          "db[0]",
          "db",
          "~",
          "%",
          "ü",
          "u",
          "a.b",
          "-",
          "_",
          dots,
          slashes,
          other_slashes + "x",
          std::string(180, 'a'),
          std::string(181, 'a'),
          std::string(182, 'a')};
}

TEST(EscapeTest, HostileNamesBecomeDistinctComponents) {
  std::set<std::string> seen;
  for (const std::string& name : HostileNames()) {
    const std::string escaped = Escape(name);
    EXPECT_THAT(escaped, AllOf(Not(HasSubstr("/")), Not(""), Not("."), Not(".."))) << name;
    EXPECT_LE(escaped.size(), 255U) << name;
    EXPECT_TRUE(seen.insert(escaped).second) << name << " has the same result as another: " << escaped;
  }
}

TEST(EscapeTest, KeepsOrdinaryNames) { EXPECT_EQ(Escape("web-1.db_2"), "web-1.db_2"); }

TEST(CheckNameTest, RefusesInvalidNames) {
  EXPECT_THAT(CheckName("volume", ""), FailsWith(Code::kInvalidArgument, "volume is missing"));
  EXPECT_THAT(CheckName("volume", std::string(256, 'a')), FailsWith(Code::kInvalidArgument, "256 bytes"));
  EXPECT_THAT(CheckName("volume", "a\nb"), FailsWith(Code::kInvalidArgument, "control characters"));
  EXPECT_THAT(CheckName("volume", "\xff"), FailsWith(Code::kInvalidArgument, "not UTF-8"));
  for (const std::string& name : HostileNames()) EXPECT_OK(CheckName("volume", name));
}

}  // namespace
}  // namespace mooring::manager

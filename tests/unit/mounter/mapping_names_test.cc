// The names of encrypted volumes.
#include "mounter/path/mapping_names.h"

#include <string>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

constexpr char kUuid[] = "01234567-89ab-cdef-0123-456789abcdef";

TEST(MappingNamesTest, TheDigitsOfAnIdAreTheUuidOfItsHeader) {
  EXPECT_EQ(HeaderUuid("vol-0123456789abcdef0123456789abcdef"), kUuid);
  EXPECT_EQ(HeaderUuid("snap-0123456789abcdef0123456789abcdef"), kUuid);
  EXPECT_EQ(HeaderUuid("vol-01234567-89abcdef0123456789abcdef"), kUuid) << "with the tag of a shared pool";
}

TEST(MappingNamesTest, NothingElseHasAUuid) {
  for (const std::string id :
       {"", "vol-", "vol-0123456789abcdef0123456789abcde", "vol-0123456789abcdef0123456789abcdef0",
        "vol-0123456789ABCDEF0123456789ABCDEF", "group-0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef", "vol-0123456789abcdef0123456789abcdeg",
        "vol-0123456-789abcdef0123456789abcdef", "vol-01234567--89abcdef0123456789abcdef",
        "vol-01234567-89abcdef0123456789abcde", "vol-01234567-89abcdef0123456789abcde-",
        "vol-../56789abcdef0123456789abcdef01", "snap-vol-0123"}) {
    EXPECT_EQ(HeaderUuid(id), "") << id;
  }
}

TEST(MappingNamesTest, TheMappingHasTheNameOfTheVolume) {
  EXPECT_EQ(MappingPath("vol-0123456789abcdef0123456789abcdef"),
            "/dev/mapper/mooring-vol-0123456789abcdef0123456789abcdef");
}

}  // namespace
}  // namespace mooring::testing

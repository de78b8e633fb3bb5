// The filter that hides devices of tenants from lvm.
#include "mounter/lvm/lvm_filter.h"

#include <regex>

#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

TEST(LvmFilterTest, FiltersOfTheHostAreRead) {
  const auto filters = ParseHostFilters("filter=[\"a|^/dev/sda$|\",\"r|.*|\"]\nglobal_filter=\"r|^/dev/sdb|\"\n");
  ASSERT_OK(filters);
  EXPECT_EQ(filters->filter, R"("a|^/dev/sda$|","r|.*|")");
  EXPECT_EQ(filters->global_filter, R"("r|^/dev/sdb|")");
}

TEST(LvmFilterTest, DefaultFiltersAreNone) {
  const auto filters = ParseHostFilters("filter=[\"a|.*|\"]\nglobal_filter=[\"a|.*|\"]\n");
  ASSERT_OK(filters);
  EXPECT_EQ(filters->filter, "");
  EXPECT_EQ(filters->global_filter, "");
}

TEST(LvmFilterTest, OtherTextIsAnError) {
  for (const std::string text : {"", "filter=[\"a|.*|\"]\n", "global_filter=[]\n", "nonsense"}) {
    EXPECT_THAT(ParseHostFilters(text), FailsWith(StatusCode::kInternal, "lvmconfig")) << text;
  }
}

// A pattern that accepts another name of a device would win.
TEST(LvmFilterTest, RejectionsStandAloneInAFilterThatTheHostDoesNotUse) {
  EXPECT_THAT(HidingFilter({}, {}), StartsWith("filter=[\"r|^/dev/("));
  EXPECT_THAT(HidingFilter({.filter = "\"a|x|\"", .global_filter = ""}, {}), StartsWith("global_filter=[\"r|^/dev/("));
  EXPECT_THAT(HidingFilter({.filter = "", .global_filter = "\"a|x|\""}, {}), StartsWith("filter=[\"r|^/dev/("));
  for (const std::string& filter :
       {HidingFilter({}, {"sdb"}), HidingFilter({.filter = "\"a|x|\"", .global_filter = ""}, {"sdb"})}) {
    EXPECT_THAT(filter, Not(HasSubstr("\"a|")));
  }
  EXPECT_THAT(HidingFilter({.filter = "\"a|x|\",\"r|.*|\"", .global_filter = "\"r|y|\""}, {}),
              EndsWith("|\",\"a|x|\",\"r|.*|\"]"));
}

// The regular expressions of lvm and of ECMAScript mean the same here.
bool Hides(const std::vector<std::string>& devices, const std::string& path) {
  const std::string filter = HidingFilter({}, devices);
  const std::size_t start = filter.find('^'), end = filter.rfind('|');
  return std::regex_search(path, std::regex(filter.substr(start, end - start)));
}

TEST(LvmFilterTest, DevicesAndTheirPartitionsAreHidden) {
  const std::vector<std::string> devices = {"loop3", "sdb", "nvme0n1", "cciss!c0d0", "a+b"};
  for (const std::string path : {"/dev/loop3", "/dev/loop3p1", "/dev/sdb", "/dev/sdb12", "/dev/nvme0n1",
                                 "/dev/nvme0n1p3", "/dev/cciss/c0d0", "/dev/cciss/c0d0p1", "/dev/a+b"}) {
    EXPECT_TRUE(Hides(devices, path)) << path;
  }
  for (const std::string path :
       {"/dev/loop", "/dev/loop30", "/dev/loop33p1", "/dev/loop1", "/dev/sda", "/dev/sdbc", "/dev/sdb1x",
        "/dev/nvme0n12", "/dev/nvme0n1x", "/dev/disk/by-id/sdb", "/dev/mapper/sdb", "/dev/xsdb"}) {
    EXPECT_FALSE(Hides(devices, path)) << path;
  }
}

TEST(LvmFilterTest, RawDevicesAndLogicalVolumesOfMooringAreAlwaysHidden) {
  for (const std::string path :
       {"/dev/loop65536", "/dev/loop65540p1", "/dev/loop65999", "/dev/loop70000", "/dev/loop100000", "/dev/loop1048575",
        "/dev/mapper/my--vg-vol--0123abcd", "/dev/mapper/vg-snap--0123abcdef", "/dev/mapper/mooring-vol-0123abcd"}) {
    EXPECT_TRUE(Hides({}, path)) << path;
  }
  for (const std::string path : {"/dev/loop0", "/dev/loop9999", "/dev/loop65535", "/dev/loop10000", "/dev/dm-0",
                                 "/dev/mapper/vg-root", "/dev/mapper/vg-volume", "/dev/mapper/vg-vol--x"}) {
    EXPECT_FALSE(Hides({}, path)) << path;
  }
}

}  // namespace
}  // namespace mooring::testing

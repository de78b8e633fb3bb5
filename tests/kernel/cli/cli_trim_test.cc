// `mooring trim`, held against the blocks that images have.
#include <sys/mount.h>

#include "tests/kernel/cli/cli_program.h"

namespace mooring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CliTrimTest : public CliTest {
 protected:
  // The image of a filesystem at `place`, in which 24 MiB were written and deleted.
  std::string Used(const std::string& type, const std::string& name, const std::string& place) {
    const std::string image = type == "xfs"     ? XfsImage(name, 320 * kMiB)
                              : type == "btrfs" ? BtrfsImage(name, 256 * kMiB)
                                                : Ext4Image(name, 96 * kMiB);
    if (!Exists(Path("at"))) Dir("at");
    EXPECT_EQ(Mooring("mount image " + name + " " + place).status, 0);
    EXPECT_EQ(
        Shell("dd if=/dev/urandom of=" + place + "/kept bs=1M count=4 status=none && dd if=/dev/urandom of=" + place +
              "/gone bs=1M count=24 status=none && sync -f " + place + " && rm " + place + "/gone && sync -f " + place),
        0);
    return image;
  }
  static std::int64_t BytesOf(const std::string& image) { return StatOf(image).st_blocks * std::int64_t{512}; }
};

TEST_F(CliTrimTest, FreedSpaceGoesBackToTheDiskOfTheImage) {
  for (const std::string type : {"ext4", "xfs", "btrfs"}) {
    SCOPED_TRACE(type);
    const std::string image = Used(type, "vol-" + type + ".img", "at/" + type);
    const std::int64_t before = BytesOf(image);
    ASSERT_EQ(Mooring("mount bind at/" + type + " at/again-" + type + " --read-only").status, 0);
    Ran ran;
    for (int tries = 0; tries < 20 && before - BytesOf(image) < 20 * std::int64_t{kMiB}; ++tries) {
      ran = Mooring("trim --below at --json");  // a btrfs frees the space in a later transaction
      ASSERT_EQ(ran.status, 0) << ran.err;
      ASSERT_EQ(Shell("sync -f at/" + type), 0);
    }
    EXPECT_GE(before - BytesOf(image), 20 * std::int64_t{kMiB});
    EXPECT_THAT(ran.out, HasSubstr("at/" + type));
    EXPECT_THAT(ran.out, Not(HasSubstr("again"))) << "a filesystem is trimmed once";
    EXPECT_EQ(Shell("test $(stat -c %s at/" + type + "/kept) = 4194304"), 0);
    EXPECT_EQ(Shell("mooring umount at/again-" + type + " && mooring umount at/" + type), 0);
  }
}

TEST_F(CliTrimTest, NothingElseIsTrimmed) {
  const std::string foreign = Used("ext4", "disk.img", "at/foreign");
  const std::int64_t before = BytesOf(foreign);
  Used("ext4", "vol-1.img", "elsewhere");
  const Ran ran = Mooring("trim --below at");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "no filesystem of a volume is mounted here\n");
  EXPECT_EQ(BytesOf(foreign), before);
}

// A filesystem that cannot be trimmed does not keep the others from it.
TEST_F(CliTrimTest, AFailureIsToldAndTheOthersAreTrimmed) {
  const std::string image = Used("ext4", "vol-1.img", "at/one");
  Used("ext4", "vol-2.img", "at/two");
  ASSERT_EQ(::mount("none", Path("at/two").c_str(), "tmpfs", 0, nullptr), 0);
  const std::int64_t before = BytesOf(image);
  ASSERT_EQ(Mooring("mount bind at/one at/another --propagation private").status, 0);
  ASSERT_EQ(::mount("none", Path("at/one").c_str(), "tmpfs", 0, nullptr), 0);  // and only there
  const Ran ran = Mooring("trim --below at");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("another mount covers"), HasSubstr("1 of 2 filesystems were trimmed")));
  EXPECT_LT(BytesOf(image), before);
}

}  // namespace
}  // namespace mooring::testing

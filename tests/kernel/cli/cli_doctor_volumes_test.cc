// `mooring doctor` on volumes: their loop devices, filesystems and uses.
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/kernel/cli/cli_program.h"
#include "tests/kernel/mount/namespaces.h"

namespace mooring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Tests beside this one make volumes, too, and `doctor` looks at the whole host.
class CliDoctorVolumesTest : public CliDoctorTest {
 protected:
  const std::string id_ = fmt::format("vol-{}", ::getpid());
  const std::string other_ = id_ + "-other";
};

TEST_F(CliDoctorVolumesTest, FindsFrozenExt4) {
  const MountRequest request = MountOf(Ext4Image("v.img"), Path("at"), "ext4");
  MountRequest labelled = request;
  labelled.label = "mooring:" + id_;
  ASSERT_OK(mounter_.Mount(labelled));
  const std::string finding = "problem (frozen-filesystem): the filesystem of '" + Path("v.img") + "'";
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(finding)));
  ASSERT_EQ(Tool("fsfreeze -f " + Path("at")), 0);
  const Ran found = Doctor("");
  EXPECT_EQ(found.status, kFindings);
  EXPECT_THAT(found.out, HasSubstr(finding));
  EXPECT_EQ(Tool("fsfreeze -u " + Path("at")), 0);
  EXPECT_THAT(found.out, HasSubstr("# fsfreeze -u " + Path("at") + "\n"));
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(finding)));
}

// A frozen xfs shows only in the processes that wait for it.
TEST_F(CliDoctorVolumesTest, FindsFrozenXfsByItsWriter) {
  MountRequest request = MountOf(XfsImage("v.img"), Path("at"), "xfs");
  request.label = "mooring:" + id_;
  ASSERT_OK(mounter_.Mount(request));
  ASSERT_EQ(Tool("fsfreeze -f " + Path("at")), 0);
  std::thread writer([this] { Tool("cd " + Path("at") + " && touch file"); });
  std::string out;
  EXPECT_TRUE(Eventually([&] {
    out = Doctor("").out;
    return out.find("(frozen-filesystem): the filesystem of '" + Path("v.img")) != std::string::npos;
  })) << out;
  EXPECT_EQ(Tool("fsfreeze -u " + Path("at")), 0);
  writer.join();
}

TEST_F(CliDoctorVolumesTest, UnusedLoopDeviceOverAnImage) {
  Dir("state/volumes");
  const std::string image = Ext4Image("state/volumes/" + id_ + ".img");
  const std::string device = Losetup(image);
  const Ran found = Doctor("");
  EXPECT_THAT(found.out, HasSubstr(fmt::format("note (leaked-loop): {} is bound to '{}'", device, image)));
  const Ran of_volume = Doctor(id_);
  EXPECT_THAT(Commands(of_volume), IsEmpty()) << "it may be staged as a block device, and not yet published";
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  EXPECT_TRUE(NoLoopOver(image));
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(image)));
}

TEST_F(CliDoctorVolumesTest, UsedLoopDeviceIsIgnored) {
  SharedMount("srv");
  Dir("state/volumes");
  const std::string image = Ext4Image("state/volumes/" + id_ + ".img");
  ASSERT_EQ(Mooring("mount image " + image + " srv/dst").status, 0);
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(image)));
  const std::string block = Losetup(Sparse("state/volumes/" + other_ + ".img", kMiB));
  ASSERT_EQ(Mooring("mount bind " + block + " srv/node").status, 0);
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(other_)));
  EXPECT_THAT(Doctor(other_).out, HasSubstr("checked: capabilities, kernel features, 1 mount, propagation of '" +
                                            Path("srv/node") + "', volume '" + other_ + "'"));
  const Ran of_volume = Doctor(id_);
  EXPECT_EQ(of_volume.status, 0) << of_volume.out;
  EXPECT_THAT(of_volume.out, HasSubstr("the mount itself, at '" + Path("srv/dst") + "'"));
}

TEST_F(CliDoctorVolumesTest, LoopDeviceOverADeletedFile) {
  const std::string file = Sparse("image", kMiB);
  const std::string device = Losetup(file);
  std::filesystem::remove(file);
  const Ran found = Doctor("");
  EXPECT_THAT(found.out,
              HasSubstr(fmt::format("note (leaked-loop): {} is bound to '{}': a file that was deleted", device, file)));
  EXPECT_THAT(Commands(found), Not(::testing::Contains("losetup -d " + device))) << "another program attached it";
  ASSERT_EQ(Shell("losetup -d " + device), 0);
  EXPECT_TRUE(NoLoopOver(file));
  EXPECT_THAT(Doctor("").out, Not(HasSubstr(file)));
}

// A device that a plugin in a container attached may have another path here, or none. The label is the same.
TEST_F(CliDoctorVolumesTest, VolumeIsFoundByTheLabelOfItsDevice) {
  SharedMount("srv");
  MountRequest request = MountOf(Ext4Image("elsewhere"), Path("srv/v"));
  request.label = "mooring:" + id_;
  ASSERT_OK(mounter_.Mount(request));
  const Ran ran = Doctor(id_);
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("propagation of '" + Path("srv/v") + "'"));
}

TEST_F(CliDoctorVolumesTest, VolumeInUseShowsCommands) {
  SharedMount("csi");
  const std::string usage = "/v[0]/rw-file-system-single-node-writer";
  const std::string staging = Path("csi/staging/default" + usage), target = Path("csi/per-alloc/a" + usage);
  std::filesystem::create_directories(staging);
  std::filesystem::create_directories(target);
  MountRequest request = MountOf(Ext4Image("image"), staging);
  request.label = "mooring:" + id_;
  ASSERT_OK(mounter_.Mount(request));
  ASSERT_EQ(::mount(staging.c_str(), target.c_str(), nullptr, MS_BIND, nullptr), 0);
  const Ran ran = Doctor(id_);
  EXPECT_EQ(ran.status, 0) << "a note";
  const std::size_t unpublish = ran.out.find("# mooring csi unpublish " + id_ + " --target-path '" + target + "'");
  const std::size_t unstage = ran.out.find("# mooring csi unstage " + id_ + " --staging-path '" + staging + "'");
  ASSERT_NE(unstage, std::string::npos) << ran.out;
  EXPECT_LT(unpublish, unstage) << ran.out;
}

TEST_F(CliDoctorVolumesTest, UnstagedAndUnknownVolumes) {
  Dir("state/volumes");
  Sparse("state/volumes/" + id_ + ".img", kMiB);
  const Ran there = Doctor(id_);
  EXPECT_EQ(there.status, kFindings);
  EXPECT_THAT(there.out, HasSubstr("problem (not-staged)"));
  const Ran missing = Doctor(other_);
  EXPECT_EQ(missing.status, kFindings);
  EXPECT_THAT(missing.out, HasSubstr("problem (unknown-volume)"));
}

TEST_F(CliDoctorVolumesTest, VolumeOnlyInAnotherNamespace) {
  SharedMount("srv");
  Dir("srv/v");
  Dir("state/volumes");
  const std::string device = Losetup(Ext4Image("state/volumes/" + id_ + ".img"));
  const MountNamespace plugin(MountNamespace::Kind::kSlave);
  ASSERT_EQ(
      plugin.Ask([&] { return fmt::format("{}", ::mount(device.c_str(), Path("srv/v").c_str(), "ext4", 0, nullptr)); }),
      "0");
  const Ran found = ExpectRepaired(id_, "only-elsewhere");
  EXPECT_THAT(found.out, HasSubstr(fmt::format("note (held-elsewhere): volume '{}' is mounted nowhere here, and in "
                                               "the mount namespace of pid {} ",
                                               id_, plugin.pid())));
}

}  // namespace
}  // namespace mooring::testing

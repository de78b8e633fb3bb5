// A tenant writes a hostile filesystem to a block volume. Then the volume, or a copy of its snapshot, is staged as a
// filesystem. The volume is an image or a device. A volume for block access only is never mounted.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class HostileContents : public RpcTest {
 protected:
  CreateVolumeRequest Request(const std::string& name, const std::vector<VolumeCapability>& capabilities,
                              const Parameters& parameters = {}) {
    CreateVolumeRequest request = CreateRequest(name, capabilities.front(), kVolumeBytes, parameters);
    for (std::size_t i = 1; i < capabilities.size(); ++i) *request.add_volume_capabilities() = capabilities[i];
    return request;
  }
  void ExpectNotStaged(const std::string& id, const std::string& piece) {
    const std::string staging = Staging(id);
    ExpectRefused(StageRequest(id, staging, Mount()), Code::kFailedPrecondition, piece);
  }
  // "{}" in `craft` is the block device, as a task sees it.
  void WriteRaw(const std::string& volume, const std::string& craft) {
    const std::string staging = Staging(volume, "raw"), target = Target("raw", volume);
    ASSERT_OK(driver().Stage(volume, staging, Block()));
    ASSERT_OK(driver().Publish(volume, staging, target, Block()));
    EXPECT_EQ(Shell(fmt::format(fmt::runtime(craft), target)), 0) << craft;
    ASSERT_OK(driver().Unpublish(volume, target));
    ASSERT_OK(driver().Unstage(volume, staging));
  }
  std::string KernelOptions(const std::string& path) {
    return ReadFile("/proc/fs/ext4/" + fs::path(MountAt(path)->source).filename().string() + "/options");
  }
};

class HostileContentsOf : public HostileContents, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (is_device()) Plug();
    Start();
  }
  void TearDown() override {
    RpcTest::TearDown();
    if (!disk_.empty()) {
      EXPECT_EQ(Shell("losetup -d " + disk_), 0);
    }
  }
  bool is_device() const { return std::string(GetParam()) == "device"; }
  std::string CreatedForBoth() {
    return Created(Request("v", {Mount("ext4"), Block()}, is_device() ? Parameters{{"pool", "disks"}} : Parameters{}));
  }

 private:
  void Plug() {
    const std::string links = dir() / "links";
    ASSERT_EQ(::mkdir(links.c_str(), 0755), 0);
    ASSERT_EQ(Shell(fmt::format("truncate -s 64M {}", backing_ / "disk")), 0);
    disk_ = AttachLoop(backing_ / "disk");
    ASSERT_EQ(::symlink(disk_.c_str(), (links + "/disk-a").c_str()), 0);
    AddFlags({"--pool", "name=disks,backend=device,match=disk-*,path=" + links});
  }
  TempDir backing_;
  std::string disk_;
};

struct Craft {
  std::string command;
  std::string piece;  // of the error
};

const std::string kMake = "mkfs.ext4 -q -F -b 4096 {0} 16M && ";

TEST_P(HostileContentsOf, StageRefusesHostileImages) {
  const std::string id = CreatedForBoth();
  const std::string set = "debugfs -w -R 'set_super_value ", quiet = "' {0} 2>/dev/null";
  for (const Craft& craft : {
           Craft{set + "journal_uuid 11111111-2222-3333-4444-555555555555" + quiet, "s_journal_uuid = 11111111-2222"},
           Craft{set + "journal_inum 0" + quiet + " && " + set + "journal_dev 0x0701" + quiet, "s_journal_dev = 0x701"},
           Craft{"tune2fs -O mmp -E mmp_update_interval=300 {0} >/dev/null 2>&1", "(mmp)"},
           Craft{"tune2fs -E mount_opts=errors=panic {0} >/dev/null", "s_mount_opts = 'errors=panic'"},
           Craft{"tune2fs -o journal_data_writeback {0} >/dev/null", "(journal_data_writeback)"},
       }) {
    WriteRaw(id, kMake + craft.command);
    const auto before = Clock::now();
    ExpectNotStaged(id, craft.piece);
    EXPECT_LT(Clock::now() - before, std::chrono::seconds(30)) << "the image decided how long the call takes";
  }
}

TEST_P(HostileContentsOf, ImageCannotAskForAPanic) {
  const std::string id = CreatedForBoth();
  WriteRaw(id, kMake + "tune2fs -e panic {0} >/dev/null");
  ASSERT_OK(driver().Stage(id, Staging(id), Mount()));
  EXPECT_THAT(KernelOptions(Staging(id)), HasSubstr("errors=remount-ro"));
}

INSTANTIATE_TEST_SUITE_P(Pools, HostileContentsOf, ::testing::Values("image", "device"), NameOfRow);

TEST_F(HostileContents, HostileImageIsSnappedButNotCopied) {
  const std::string id = Created(Request("v", {Mount("ext4"), Block()}));
  WriteRaw(id, kMake + "tune2fs -E mount_opts=noload {0} >/dev/null");
  const std::string snapshot = Snapped("s", id);
  for (const std::string& source : {id, snapshot}) {
    ExpectRefused(CopyRequest("copy", source, Mount(), kVolumeBytes), Code::kFailedPrecondition,
                  "s_mount_opts = 'noload'");
    const std::string copy = Created(
        CopyRequest("raw copy of " + source, source, Block(), kVolumeBytes, {{"allowVolumeModeConversion", "true"}}));
    ExpectNotStaged(copy, "s_mount_opts = 'noload'");
  }
}

TEST_F(HostileContents, HostileImageIsNotGrown) {
  const std::string id = Created(Request("v", {Mount("ext4"), Block()}));
  WriteRaw(id, kMake + "tune2fs -O mmp {0} >/dev/null 2>&1");
  ASSERT_OK(driver().Grow(id, 2048 * kMiB));
  ExpectNotStaged(id, "(mmp)");
}

// Otherwise the task could change the mounted filesystem after the check.
TEST_F(HostileContents, StageRefusesADeviceThatATaskHoldsOpen) {
  const std::string id = Created(Request("v", {Mount("ext4"), Block()}));
  const std::string target = Target("raw", id), raw = Staging(id, "raw");
  ASSERT_OK(driver().Stage(id, raw, Block()));
  ASSERT_OK(driver().Publish(id, raw, target, Block()));
  UniqueFd task(
      ::open(LoopsHere().at(0).device.c_str(), O_RDWR | O_CLOEXEC));  // through a device node of the task's container
  ASSERT_TRUE(task.ok());
  ASSERT_OK(driver().Unpublish(id, target));
  static_cast<void>(driver().Unstage(id, raw));
  ExpectNotStaged(id, "in use as a block device");
  task.reset();
  ASSERT_OK(driver().Unstage(id, raw));
  EXPECT_OK(driver().Stage(id, Staging(id), Mount()));
}

class BlockOnly : public HostileContents {
 protected:
  const Parameters kAllow = {{"allowVolumeModeConversion", "true"}};
  void ExpectNeverMounted(const std::string& id) {
    ExpectNotStaged(id, "was made for block access only");
    EXPECT_OK(driver().Attach(id, kNode, Mount())) << "Docker Swarm attaches it so, and stages it as a block device";
    EXPECT_OK(driver().Detach(id, kNode));
    const auto validated = driver().Send(ValidateRequest(id, Mount()));
    ASSERT_OK(validated);
    EXPECT_FALSE(validated->has_confirmed());
    EXPECT_THAT(validated->message(), HasSubstr("block access only"));
  }
};

TEST_F(BlockOnly, VolumeIsNeverMounted) {
  const std::string id = Created(Request("v", {Block()}));
  ExpectNeverMounted(id);
  ASSERT_OK(driver().Stage(id, Staging(id), Block()));
  const std::string target = Target("a");
  ExpectRefused(PublishRequest(id, Staging(id), target, Mount()), Code::kFailedPrecondition,
                "was made for block access only");
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  Restart(SIGKILL);
  ExpectNeverMounted(id);
  ASSERT_OK(driver().Stage(id, Staging(id), Block()));
  EXPECT_EQ(Created(Request("v", {Block()})), id);
  ExpectRefused(Request("v", {Mount()}), Code::kAlreadyExists, "block access only");
}

TEST_F(BlockOnly, CopiesAreNeverMounted) {
  const std::string id = Created(Request("v", {Block()}));
  const std::string snapshot = Snapped("s", id);
  Restart(SIGTERM);
  for (const std::string& source : {id, snapshot}) {
    ExpectRefused(CopyRequest("copy", source, Mount(), kVolumeBytes), Code::kInvalidArgument,
                  "allowVolumeModeConversion=true");
    ExpectNeverMounted(Created(CopyRequest("raw copy of " + source, source, Block(), kVolumeBytes)));
    const std::string allowed = Created(CopyRequest("copy of " + source, source, Mount(), kVolumeBytes, kAllow));
    EXPECT_OK(driver().Stage(allowed, Staging(allowed), Mount()));
  }
}

TEST_F(BlockOnly, ParameterAllowsAMount) {
  const std::string id = Created(Request("v", {Block()}, kAllow));
  WriteRaw(id, "mkfs.ext4 -q -F {}");
  EXPECT_OK(driver().Stage(id, Staging(id), Mount()));
  ExpectRefused(Request("w", {Block()}, {{"allowVolumeModeConversion", "yes"}}), Code::kInvalidArgument,
                "it is true or false");
}

// A user of the files of a volume may also read its bytes.
TEST_F(BlockOnly, MountVolumeMayBeStagedAsABlockDevice) {
  const std::string id = Created(Mount());
  ASSERT_OK(driver().Stage(id, Staging(id), Block()));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_OK(driver().Stage(id, Staging(id), Mount()));
}

}  // namespace
}  // namespace mooring::testing

// A tenant writes a filesystem to a block volume, and the volume is then asked for as a filesystem: from an image and
// from a device, itself and through a snapshot. And a volume for block access only, which is never mounted.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Parameters = std::vector<std::pair<std::string, std::string>>;

class HostileContents : public RpcTest {
 protected:
  csi::v1::CreateVolumeRequest Request(const std::string& name, const std::vector<VolumeCapability>& capabilities,
                                       const Parameters& parameters = {}) {
    csi::v1::CreateVolumeRequest request;
    request.set_name(name);
    request.mutable_capacity_range()->set_required_bytes(kVolumeBytes);
    for (const VolumeCapability& capability : capabilities) *request.add_volume_capabilities() = capability;
    for (const auto& [key, value] : parameters) (*request.mutable_parameters())[key] = value;
    return request;
  }
  csi::v1::CreateVolumeRequest CopyOf(const std::string& name, const std::string& source,
                                      const VolumeCapability& capability, const Parameters& parameters = {}) {
    csi::v1::CreateVolumeRequest request = Request(name, {capability}, parameters);
    auto& content = *request.mutable_volume_content_source();
    if (source.starts_with("snap-")) {
      content.mutable_snapshot()->set_snapshot_id(source);
    } else {
      content.mutable_volume()->set_volume_id(source);
    }
    return request;
  }
  std::string IdOf(const csi::v1::CreateVolumeRequest& request) {
    const auto made = driver().Send(request);
    EXPECT_OK(made);
    return made->volume().volume_id();
  }
  std::string Snapped(const std::string& volume) {
    csi::v1::CreateSnapshotRequest request;
    request.set_name("s");
    request.set_source_volume_id(volume);
    const auto made = driver().Send(request);
    EXPECT_OK(made);
    return made->snapshot().snapshot_id();
  }
  void ExpectNotStaged(const std::string& id, const std::string& piece) {
    const std::string staging = Staging(id);
    ExpectRefused([&] { return driver().Stage(id, staging, Mount()); }, Code::kFailedPrecondition, piece);
  }
  void DeleteSnapshot(const std::string& id) {
    csi::v1::DeleteSnapshotRequest request;
    request.set_snapshot_id(id);
    EXPECT_OK(driver().Send(request));
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
    return ReadFile("/proc/fs/ext4/" + std::filesystem::path(MountAt(path)->source).filename().string() + "/options");
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
    return IdOf(Request("v", {Mount("ext4"), Block()}, is_device() ? Parameters{{"pool", "disks"}} : Parameters{}));
  }

 private:
  void Plug() {
    const std::string links = dir() / "links";
    ASSERT_EQ(::mkdir(links.c_str(), 0755), 0);
    ASSERT_EQ(Shell(fmt::format("truncate -s 64M {}", backing_ / "disk")), 0);
    disk_ = RunOutput("losetup --find --show " + (backing_ / "disk"));
    while (!disk_.empty() && disk_.back() == '\n') disk_.pop_back();
    ASSERT_EQ(::symlink(disk_.c_str(), (links + "/disk-a").c_str()), 0);
    plugin().options().flags.insert(plugin().options().flags.end(),
                                    {"--pool", "name=disks,backend=device,match=disk-*,path=" + links});
  }
  TempDir backing_;
  std::string disk_;
};

struct Craft {
  std::string command;
  std::string piece;  // of the error
};

const std::string kMake = "mkfs.ext4 -q -F -b 4096 {0} 16M && ";

TEST_P(HostileContentsOf, AnImageThatWouldDirectTheHostIsNotStaged) {
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
    const auto before = std::chrono::steady_clock::now();
    ExpectNotStaged(id, craft.piece);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(30)) << "no image decides how long";
  }
}

TEST_P(HostileContentsOf, AnImageCannotAskForAPanic) {
  const std::string id = CreatedForBoth();
  WriteRaw(id, kMake + "tune2fs -e panic {0} >/dev/null");
  ASSERT_OK(driver().Stage(id, Staging(id), Mount()));
  EXPECT_THAT(KernelOptions(Staging(id)), HasSubstr("errors=remount-ro"));
}

INSTANTIATE_TEST_SUITE_P(Pools, HostileContentsOf, ::testing::Values("image", "device"),
                         [](const auto& pool) { return std::string(pool.param); });

TEST_F(HostileContents, ASnapshotOfSuchAnImageIsMadeAndItsCopyIsNot) {
  const std::string id = IdOf(Request("v", {Mount("ext4"), Block()}));
  WriteRaw(id, kMake + "tune2fs -E mount_opts=noload {0} >/dev/null");
  const std::string snapshot = Snapped(id);
  for (const std::string& source : {id, snapshot}) {
    ExpectRefused([&] { return driver().Send(CopyOf("copy", source, Mount())); }, Code::kFailedPrecondition,
                  "s_mount_opts = 'noload'");
    const std::string copy =
        IdOf(CopyOf("raw copy of " + source, source, Block(), {{"allowVolumeModeConversion", "true"}}));
    ExpectNotStaged(copy, "s_mount_opts = 'noload'");
  }
  DeleteSnapshot(snapshot);
}

TEST_F(HostileContents, SuchAnImageIsNotGrown) {
  const std::string id = IdOf(Request("v", {Mount("ext4"), Block()}));
  WriteRaw(id, kMake + "tune2fs -O mmp {0} >/dev/null 2>&1");
  ASSERT_OK(driver().Grow(id, 2048 * kMiB));
  ExpectNotStaged(id, "(mmp)");
}

// Else the task could change under the mounted filesystem what was judged before.
TEST_F(HostileContents, AVolumeThatATaskStillHoldsOpenIsNotMounted) {
  const std::string id = IdOf(Request("v", {Mount("ext4"), Block()}));
  const std::string target = Target("raw", id), raw = Staging(id, "raw");
  ASSERT_OK(driver().Stage(id, raw, Block()));
  ASSERT_OK(driver().Publish(id, raw, target, Block()));
  UniqueFd task(::open(LoopsHere().at(0).device.c_str(), O_RDWR | O_CLOEXEC));  // by a node of the container's own
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
    EXPECT_OK(driver().Attach(id, kNode, Mount())) << "as Docker Swarm does, which then stages it as a block device";
    EXPECT_OK(driver().Detach(id, kNode));
    csi::v1::ValidateVolumeCapabilitiesRequest validate;
    validate.set_volume_id(id);
    *validate.add_volume_capabilities() = Mount();
    const auto validated = driver().Send(validate);
    ASSERT_OK(validated);
    EXPECT_FALSE(validated->has_confirmed());
    EXPECT_THAT(validated->message(), HasSubstr("block access only"));
  }
};

TEST_F(BlockOnly, AVolumeIsNeverMounted) {
  const std::string id = IdOf(Request("v", {Block()}));
  ExpectNeverMounted(id);
  ASSERT_OK(driver().Stage(id, Staging(id), Block()));
  const std::string target = Target("a");
  ExpectRefused([&] { return driver().Publish(id, Staging(id), target, Mount()); }, Code::kFailedPrecondition,
                "was made for block access only");
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  Restart(SIGKILL);
  ExpectNeverMounted(id);
  ASSERT_OK(driver().Stage(id, Staging(id), Block()));
  EXPECT_EQ(IdOf(Request("v", {Block()})), id);
  ExpectRefused([&] { return driver().Send(Request("v", {Mount()})); }, Code::kAlreadyExists, "block access only");
}

TEST_F(BlockOnly, NorIsACopyOfItOrOfItsSnapshot) {
  const std::string id = IdOf(Request("v", {Block()}));
  const std::string snapshot = Snapped(id);
  Restart(SIGTERM);
  for (const std::string& source : {id, snapshot}) {
    ExpectRefused([&] { return driver().Send(CopyOf("copy", source, Mount())); }, Code::kInvalidArgument,
                  "allowVolumeModeConversion=true");
    ExpectNeverMounted(IdOf(CopyOf("raw copy of " + source, source, Block())));
    const std::string allowed = IdOf(CopyOf("copy of " + source, source, Mount(), kAllow));
    EXPECT_OK(driver().Stage(allowed, Staging(allowed), Mount()));
  }
  DeleteSnapshot(snapshot);
}

TEST_F(BlockOnly, AVolumeMayBeMountedWhereAParameterSaysSo) {
  const std::string id = IdOf(Request("v", {Block()}, kAllow));
  WriteRaw(id, "mkfs.ext4 -q -F {}");
  EXPECT_OK(driver().Stage(id, Staging(id), Mount()));
  ExpectRefused(
      [&] {
        return driver().Send(Request("w", {Block()}, {{"allowVolumeModeConversion", "yes"}}));
      },
      Code::kInvalidArgument, "it is true or false");
}

// A user who may read the files of a volume may read its bytes, too.
TEST_F(BlockOnly, IsNotWhatAVolumeForMountAccessIs) {
  const std::string id = Created(Mount());
  ASSERT_OK(driver().Stage(id, Staging(id), Block()));
  ASSERT_OK(driver().Unstage(id, Staging(id)));
  ASSERT_OK(driver().Stage(id, Staging(id), Mount()));
}

}  // namespace
}  // namespace mooring::testing

// The root directory of a new volume: empty, with the owner and the mode of the request, for each kind of backend. And
// the options of mkfs.
#include <sys/statvfs.h>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

struct Kind {
  const char* name;
  const char* pool;
  const char* fs_type;
  std::int64_t bytes;
};

class RootTest : public RpcTest {
 protected:
  void SetUp() override {
    AddFlags({"--pool", "name=dirs,backend=directory,path=" + (dir() / "dirs"), "--pool",
              "name=mem,backend=tmpfs,size=256MiB"});
    Start();
  }
  static std::string Owner(const std::string& path) {
    const struct stat status = StatOf(path);
    return fmt::format("{}:{} {:04o}", status.st_uid, status.st_gid, status.st_mode & 07777);
  }
  static std::vector<std::string> Entries(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename());
    return names;
  }
};

class RootOfKind : public RootTest, public ::testing::WithParamInterface<Kind> {
 protected:
  CreateVolumeRequest Request(const std::string& name, Parameters parameters) {
    parameters["pool"] = GetParam().pool;
    return CreateRequest(name, Mount(GetParam().fs_type, kMultiWriter), GetParam().bytes, parameters);
  }
  VolumeCapability Use() const { return Mount(GetParam().fs_type, kMultiWriter); }
};

INSTANTIATE_TEST_SUITE_P(Kinds, RootOfKind,
                         ::testing::Values(Kind{"ext4", "default", "ext4", kVolumeBytes},
                                           Kind{"xfs", "default", "xfs", kXfsBytes},
                                           Kind{"btrfs", "default", "btrfs", 128 * kMiB},
                                           Kind{"directory", "dirs", "", kVolumeBytes},
                                           Kind{"memory", "mem", "", kVolumeBytes}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(RootOfKind, IsEmptyAndOfTheOwnerThatIsAskedFor) {
  const std::string plain = Created(Request("plain", {}));
  StageAndPublish(plain, Target("plain"), Use());
  EXPECT_THAT(Entries(Target("plain")), IsEmpty());
  EXPECT_EQ(Owner(Target("plain")), "0:0 0755");

  const std::string owned = Created(Request("owned", {{"uid", "999"}, {"gid", "998"}, {"mode", "0750"}}));
  Restart(SIGKILL);  // the request is on record
  StageAndPublish(owned, Target("owned"), Use());
  EXPECT_EQ(Owner(Target("owned")), "999:998 0750");
  // The directories above it let only root in.
  ASSERT_EQ(Shell("unshare -m sh -c 'mount --bind " + Target("owned") +
                  " /mnt && setpriv --reuid 999 --regid 998 --clear-groups touch /mnt/file'"),
            0);
  ASSERT_EQ(::chown(Target("owned").c_str(), 5, 5), 0);
  UnpublishAndUnstage(owned, Target("owned"));
  StageAndPublish(owned, Target("owned"), Use());
  EXPECT_EQ(Owner(Target("owned")), GetParam().pool == std::string("mem") ? "999:998 0750" : "5:5 0750")
      << "the owner is set once, and a tmpfs begins anew";
}

TEST_P(RootOfKind, AnotherOwnerIsAnotherVolume) {
  ASSERT_OK(driver().Send(Request("v", {{"uid", "999"}})));
  ASSERT_OK(driver().Send(Request("v", {{"uid", "999"}})));
  ExpectRefused(Request("v", {{"uid", "998"}}), Code::kAlreadyExists, "uid=999, and uid=998 is asked for");
  ExpectRefused(Request("v", {}), Code::kAlreadyExists, "uid=999, and the default owner and format is asked for");
}

TEST_F(RootTest, WrongParametersAreRefusedWithAReason) {
  struct Wrong {
    Parameters parameters;
    const char* piece;
  };
  const std::vector<Wrong> wrong = {
      {{{"uid", "postgres"}}, "uid 'postgres': it is a number"},
      {{{"uid", "-1"}}, "uid '-1'"},
      {{{"gid", "4294967295"}}, "gid '4294967295'"},
      {{{"gid", ""}}, "gid ''"},
      {{{"mode", "u+rwx"}}, "mode 'u+rwx': it is an octal number"},
      {{{"mode", "0644"}}, "mode '0644'"},
      {{{"mode", "0788"}}, "mode '0788'"},
      {{{"mode", "17777"}}, "mode '17777'"},
      {{{"mode", ""}}, "mode ''"},
      {{{"inodeSize", "300"}}, "inodeSize 300: ext4 takes a power of two from 256 to 1024"},
      {{{"inodeSize", "big"}}, "inodeSize 'big'"},
      {{{"bytesPerInode", "1024"}}, "bytesPerInode 1024: ext4 takes a number from 4096"},
      {{{"bytesPerInode", "0"}}, "bytesPerInode '0'"},
      {{{"maxInodePercent", "5"}}, "maxInodePercent is not for ext4: only xfs has it"},
      {{{"bytesPerInode", "8192"}, {"fsType", "xfs"}}, "bytesPerInode is not for xfs: only ext4 has it"},
      {{{"inodeSize", "512"}, {"fsType", "btrfs"}}, "inodeSize is not for btrfs"},
      {{{"inodeSize", "512"}, {"pool", "mem"}}, "inodeSize is not for tmpfs"},
      {{{"inodeSize", "512"}, {"pool", "dirs"}}, "inodeSize is not for directory"},
      {{{"UID", "5"}}, "uid, gid, mode, onDelete, inodeSize, bytesPerInode, maxInodePercent"},
  };
  for (const Wrong& row : wrong) {
    ExpectRefused(CreateRequest("w", Mount("", kMultiWriter), 0, row.parameters), Code::kInvalidArgument, row.piece);
  }
  ExpectRefused(CreateRequest("w", Block(), kVolumeBytes, {{"uid", "5"}}), Code::kInvalidArgument,
                "only block access is asked for");
  EXPECT_OK(driver().Send(
      CreateRequest("later", Block(), kVolumeBytes, {{"uid", "5"}, {"allowVolumeModeConversion", "true"}})));
}

TEST_F(RootTest, OptionsOfMkfsReachTheFilesystem) {
  const std::string id =
      Created(CreateRequest("many", Mount("ext4", kMultiWriter), kVolumeBytes, {{"bytesPerInode", "8KiB"}}));
  StageAndPublish(id, Target("many"), kSharedMount);
  struct statvfs filesystem = {};
  ASSERT_EQ(::statvfs(Target("many").c_str(), &filesystem), 0);
  EXPECT_EQ(filesystem.f_files, 8192U);
  csi::v1::ValidateVolumeCapabilitiesRequest validate = ValidateRequest(id, kSharedMount);
  (*validate.mutable_parameters())["bytesPerInode"] = "8192";
  EXPECT_TRUE(driver().Send(validate)->has_confirmed());
  (*validate.mutable_parameters())["bytesPerInode"] = "16384";
  EXPECT_FALSE(driver().Send(validate)->has_confirmed());
}

// Copies of volumes that were never used, and of volumes with only a lost+found.
TEST_F(RootTest, CopiesAreEmptyAndOfTheOwnerOfTheirSource) {
  const std::string source =
      Created(CreateRequest("source", kSharedMount, kVolumeBytes, {{"uid", "999"}, {"bytesPerInode", "8192"}}));
  const std::string unused = Created(CopyRequest("unused", source, kSharedMount));
  ASSERT_OK(driver().Send(CopyRequest("unused", source, kSharedMount)));
  StageAndPublish(unused, Target("unused"), kSharedMount);
  EXPECT_EQ(Owner(Target("unused")), "999:0 0755");
  StageAndPublish(source, Target("source"), kSharedMount);
  const std::string copy = Created(CopyRequest("copy", Snapped("snap", source), kSharedMount, 2 * kVolumeBytes));
  StageAndPublish(copy, Target("copy"), kSharedMount);  // e2fsck -f runs before it grows, and makes a lost+found
  EXPECT_THAT(Entries(Target("copy")), IsEmpty());
  EXPECT_EQ(Owner(Target("copy")), "999:0 0755");
  ExpectRefused(CopyRequest("other", source, kSharedMount, 0, {{"uid", "998"}}), Code::kInvalidArgument,
                "uid=998 is asked for, and volume_content_source");
}

TEST_F(RootTest, VolumeThatGrewBeforeItsFirstUseIsEmpty) {
  const std::string id = Published(Target("a"), kSharedMount);
  UnpublishAndUnstage(id, Target("a"));
  ControllerExpandVolumeRequest expand;
  expand.set_volume_id(id);
  expand.mutable_capacity_range()->set_required_bytes(4 * kVolumeBytes);
  ASSERT_OK(driver().Send(expand));
  StageAndPublish(id, Target("a"), kSharedMount);
  EXPECT_THAT(Entries(Target("a")), IsEmpty());
  EXPECT_GT(MountedBytes(Target("a")), static_cast<std::uint64_t>(3 * kVolumeBytes));
}

}  // namespace
}  // namespace mooring::testing

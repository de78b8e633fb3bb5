// Bad names, ids, maps, flags, filesystems and groups. The call fails with the right code and text, and changes
// nothing. Bad paths: bad_path_test.cc. Bad images: tests/rpc/faults/bad_image_test.cc.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr auto kWriter = AccessMode::SINGLE_NODE_WRITER;

class BadInput : public RpcTest {
 protected:
  void SetUp() override {
    RpcTest::SetUp();
    id_ = Created();
    staging_ = Staging(id_);
    target_ = Target("a");
  }

  // Each call that has a capability refuses it.
  void RefusedEverywhere(const VolumeCapability& capability, const std::string& piece) {
    SCOPED_TRACE(capability.ShortDebugString().substr(0, 200));
    const auto refused = [&](auto call) { ExpectRefused(call, Code::kInvalidArgument, piece); };
    refused(CreateRequest("new", capability));
    refused([&] { return driver().Attach(id_, kNode, capability); });
    refused(StageRequest(id_, staging_, capability));
    refused(PublishRequest(id_, staging_, target_, capability));
  }

  std::string id_, staging_, target_;
};

TEST_F(BadInput, HostileMountFlagsAreRefused) {
  for (const char* flag : {"bind",
                           "rbind",
                           "remount",
                           "move",
                           "loop=/dev/loop0",
                           "offset=4096",
                           "X-mount.subdir=x",
                           "journal_path=/etc/passwd",
                           "journal_dev=8",
                           "logdev=/dev/vda",
                           "rtdev=/dev/vda",
                           "usrjquota=/etc/passwd",
                           "norecovery",
                           "noload",
                           "abort",
                           "shared",
                           "rprivate",
                           "suid=",
                           "commit=-1",
                           "commit=99999",
                           "commit",
                           "errors=panic",
                           "data=journal,bind",
                           "ro,bind",
                           "nosuid, bind",
                           "-o bind",
                           "uid=0",
                           "helper=/bin/sh",
                           "\n",
                           "commit=3\n0",
                           "ro=1",
                           ""}) {
    RefusedEverywhere(Mount("ext4", kWriter, {flag}), "mount flag");
  }
  RefusedEverywhere(Mount("ext4", kWriter, {"commit=30", "commit=31"}), "twice");
  RefusedEverywhere(Mount("ext4", kWriter, {"logbufs=4"}), "not allowed for ext4");
  RefusedEverywhere(Mount("xfs", kWriter, {"commit=30"}), "not allowed for xfs");
  RefusedEverywhere(Mount("ext4", kWriter, {std::string("ro\0", 3)}), "mount flag");
}

TEST_F(BadInput, MountFlagsOfMoreThanFourKibibytesAreRefused) {
  RefusedEverywhere(Mount("ext4", kWriter, std::vector<std::string>(1100, "noatime")), "4096");
}

TEST_F(BadInput, UnknownFilesystemsAreRefused) {
  for (const char* fs_type :
       {"ntfs", "EXT4", "ext4 ", " ext4", "ext4,xfs", "../ext4", "tmpfs", "overlay", "auto", "nfs", "ext4\n", "zfs"}) {
    RefusedEverywhere(Mount(fs_type), "is not one of ext4, xfs, btrfs");
  }
  RefusedEverywhere(Mount(std::string("ext4\0", 5)), "is not one of");
  RefusedEverywhere(Mount(std::string(200, 'x')), "fs_type");
}

TEST_F(BadInput, MountGroupMustBeANumber) {
  for (const char* group : {"staff", "-1", "4294967295", "99999999999", "1 2", "0x10", "1,2", " 1", "1\n"}) {
    RefusedEverywhere(WithGroup(Mount(), group), "volume_mount_group");
  }
}

TEST_F(BadInput, MapsOfMoreThanFourKibibytesAreRefused) {
  const std::string large(5 * 1024, 'x');
  const auto refused = [&](auto request, const std::string& field) {
    SCOPED_TRACE(field);
    ExpectRefused(request, Code::kInvalidArgument, field);
  };
  for (const char* field : {"parameters", "secrets"}) {
    CreateVolumeRequest request = CreateRequest("new");
    (field == std::string("parameters") ? *request.mutable_parameters() : *request.mutable_secrets())["k"] = large;
    refused(request, field);
  }
  NodeStageVolumeRequest stage = StageRequest(id_, staging_);
  NodeStageVolumeRequest many = stage;
  for (int i = 0; i < 500; ++i) (*many.mutable_volume_context())["key-" + std::to_string(i)] = "value";
  refused(many, "volume_context");
  (*stage.mutable_publish_context())["k"] = large;
  refused(stage, "publish_context");
  NodePublishVolumeRequest publish = PublishRequest(id_, staging_, target_);
  (*publish.mutable_secrets())[large] = "v";
  refused(publish, "secrets");
}

TEST_F(BadInput, MapOfFourKibibytesIsAccepted) {
  NodeStageVolumeRequest stage = StageRequest(id_, staging_);
  (*stage.mutable_volume_context())["key"] = std::string(4093, 'x');
  EXPECT_OK(driver().Send(stage));
}

TEST_F(BadInput, VolumeNamesAreChecked) {
  for (const std::string& name : {std::string(129, 'x'), std::string(100'000, 'x'), std::string("a\nb"),
                                  std::string("a\0b", 3), std::string("\x7F"), std::string("\x1B[2J")}) {
    SCOPED_TRACE(name.substr(0, 40));
    ExpectRefused(CreateRequest(name), Code::kInvalidArgument, "name");
  }
  for (const std::string& name : {std::string(128, 'x'), std::string(".."), std::string("../../etc/passwd"),
                                  std::string("a b/c'd\"e\\f"), std::string("größe")}) {
    EXPECT_OK(driver().Create(name)) << "a name is never part of a path";
  }
  for (const LoopLine& loop : LoopsHere()) ADD_FAILURE() << loop.device;
}

TEST_F(BadInput, TwoThousandUnknownIdsLeaveNoRecords) {
  const std::string before = World();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string id = "unknown-" + std::to_string(t) + "-" + std::to_string(i);
        if (i % 2 == 0) {
          EXPECT_OK(driver().Unpublish(id, target_));
        } else {
          EXPECT_THAT(driver().Stats(id, target_), FailsWith(Code::kNotFound, id));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(World(), before);
}

TEST_F(BadInput, TenThousandCapabilitiesAreValidated) {
  ValidateVolumeCapabilitiesRequest request = ValidateRequest(id_, Mount());
  for (int i = 1; i < 10'000; ++i) *request.add_volume_capabilities() = Mount();
  EXPECT_TRUE(driver().Send(request)->has_confirmed());
  request.mutable_volume_capabilities(9'999)->clear_access_mode();
  ExpectRefused(request, Code::kInvalidArgument, "access_mode");
}

TEST_F(BadInput, HugeIdMakesNoHugeLogAndNoHugeAnswer) {
  const std::string id(1'000'000, 'a');
  const auto answer = driver().Stage(id, staging_);
  EXPECT_THAT(answer, FailsWith(Code::kNotFound, "1000000 bytes"));
  EXPECT_LT(answer.status.message().size(), 2000U);
  EXPECT_LT(plugin().Log().size(), 100'000U);
  plugin().options().flags = {"--node-id", kNode, "--log-level", "debug", "--log-format", "json"};
  Restart(SIGTERM);
  EXPECT_THAT(driver().Stage(id, staging_), FailsWith(Code::kNotFound, "1000000 bytes"));
  EXPECT_LT(plugin().Log().size(), 200'000U);
}

}  // namespace
}  // namespace mooring::testing

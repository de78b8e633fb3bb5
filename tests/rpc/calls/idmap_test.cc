// The parameter idmap: a task in a user namespace owns its volume, for each kind of backend.
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/user_namespace_task.h"

namespace mooring::testing {
namespace {

struct MappedKind {
  const char* name;
  const char* pool;
  const char* fs_type;
  std::int64_t bytes;
};

class IdMapOfKind : public RpcTest, public ::testing::WithParamInterface<MappedKind> {
 protected:
  void SetUp() override {
    AddFlags({"--pool", "name=dirs,backend=directory,path=" + (dir() / "dirs"), "--pool",
              "name=mem,backend=tmpfs,size=256MiB"});
    Start();
  }
  CreateVolumeRequest Request(const std::string& name, Parameters parameters = {{"idmap", kIdMapOfTask}}) {
    parameters["pool"] = GetParam().pool;
    return CreateRequest(name, Use(), GetParam().bytes, parameters);
  }
  static VolumeCapability Use() { return Mount(GetParam().fs_type, kMultiWriter); }
};

INSTANTIATE_TEST_SUITE_P(Kinds, IdMapOfKind,
                         ::testing::Values(MappedKind{"ext4", "default", "ext4", kVolumeBytes},
                                           MappedKind{"xfs", "default", "xfs", kXfsBytes},
                                           MappedKind{"btrfs", "default", "btrfs", 128 * kMiB},
                                           MappedKind{"directory", "dirs", "", kVolumeBytes},
                                           MappedKind{"memory", "mem", "", kVolumeBytes}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(IdMapOfKind, ATaskInAUserNamespaceOwnsItsVolume) {
  const std::string id = Created(Request("v"));
  Restart(SIGKILL);  // the request is on record
  StageAndPublish(id, Target("a"), Use());
  ASSERT_OK(driver().Publish(id, Staging(id), Target("b"), Use()));
  EXPECT_EQ(WriteAsTask(Target("a")), 0);
  EXPECT_EQ(OwnerAt(Target("a") + "/file"), "100000:100000");
  EXPECT_EQ(OwnerAt(Target("b") + "/file"), "100000:100000");
  EXPECT_EQ(OwnerAt(Staging(id) + "/file"), "0:0");
  EXPECT_EQ(WriteAsTask(Staging(id)), 2);
  EXPECT_TRUE(MountAt(Target("a"))->Has("idmapped"));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use())) << "repeated";
  KillAndForget();
  ASSERT_OK(driver().Publish(id, Staging(id), Target("a"), Use())) << "without a record";
  ASSERT_OK(driver().Stats(id, Target("a")));
}

TEST_P(IdMapOfKind, AnEphemeralVolumeIsTheTasks) {
  NodePublishVolumeRequest request = PublishRequest("csi-1", "", Target("a"), Use());
  (*request.mutable_volume_context())["csi.storage.k8s.io/ephemeral"] = "true";
  (*request.mutable_volume_context())["size"] = fmt::format("{}", GetParam().bytes);
  (*request.mutable_volume_context())["pool"] = GetParam().pool;
  (*request.mutable_volume_context())["idmap"] = kIdMapOfTask;
  ASSERT_OK(driver().Send(request));
  EXPECT_EQ(WriteAsTask(Target("a")), 0);
  ASSERT_OK(driver().Unpublish("csi-1", Target("a")));
}

// The ids of the parameters and of the group are those on the disk, which the task sees.
TEST_P(IdMapOfKind, OwnerAndGroupAreThoseThatTheTaskSees) {
  const std::string id =
      Created(Request("v", {{"idmap", kIdMapOfTask}, {"uid", "999"}, {"gid", "998"}, {"mode", "0750"}}));
  StageAndPublish(id, Target("a"), Use());
  EXPECT_EQ(OwnerAt(Staging(id)), "999:998");
  EXPECT_EQ(OwnerAt(Target("a")), "100999:100998");
}

// The map stays through changes, a second staging path, and readers beside writers.
TEST_P(IdMapOfKind, TheMapStaysWhateverElseChanges) {
  const std::string id = Created(Request("v")), again = Staging(id, "again");
  StageAndPublish(id, Target("a"), Use());
  csi::v1::ControllerModifyVolumeRequest modify;
  modify.set_volume_id(id);
  (*modify.mutable_mutable_parameters())["noatime"] = "true";
  ASSERT_OK(driver().Send(modify));
  const std::string pool = GetParam().pool;
  const bool grows_in_use = pool != "default" || HasCapSysResource();  // ext4
  if (pool != "dirs" && grows_in_use) {
    ASSERT_OK(driver().Grow(id, 2 * GetParam().bytes));
    ASSERT_OK(driver().NodeExpand(id, Target("a"), 2 * GetParam().bytes));
  }
  ASSERT_OK(driver().Stage(id, again, Use()));
  ASSERT_OK(driver().Publish(id, again, Target("b"), Use()));
  ASSERT_OK(driver().Publish(id, Staging(id), Target("c"), Use(), true));
  Restart(SIGKILL);
  for (const char* target : {"a", "b"}) EXPECT_EQ(WriteAsTask(Target(target)), 0) << target;
  EXPECT_EQ(WriteAsTask(Target("c")), 3) << "it is read-only";
  EXPECT_EQ(OwnerAt(Target("c") + "/file"), "100000:100000");
  EXPECT_EQ(OwnerAt(again), "0:0");
}

// As somebody may mount it by hand, with the same flags.
TEST_P(IdMapOfKind, AMountWithoutTheMapIsNotTakenForATarget) {
  const std::string id = Created(Request("v"));
  StageAndPublish(id, Target("a"), Use());
  ASSERT_EQ(::umount2(Target("a").c_str(), 0), 0);
  fs::create_directories(Target("a"));
  ASSERT_EQ(::mount(Staging(id).c_str(), Target("a").c_str(), nullptr, MS_BIND, nullptr), 0);
  ExpectRefused(PublishRequest(id, Staging(id), Target("a"), Use()), Code::kAlreadyExists, "without its idmap");
  KillAndForget();
  ExpectRefused(PublishRequest(id, Staging(id), Target("a"), Use()), Code::kAlreadyExists, "without its idmap");
}

TEST_P(IdMapOfKind, AStagingPathIsNoTargetAndATargetNoStagingPath) {
  const std::string id = Created(Request("v")), again = Staging(id, "again");
  StageAndPublish(id, Target("a"), Use());
  ASSERT_OK(driver().Stage(id, again, Use()));
  ExpectRefused(PublishRequest(id, Staging(id), again, Use()), Code::kFailedPrecondition, "is staged at");
  ExpectRefused(StageRequest(id, Target("a"), Use()), Code::kFailedPrecondition, "is published at");
}

using IdMap = RpcTest;

// A copy has the map that its own request names, and the owners on the disk of its source.
TEST_F(IdMap, CopiesHaveTheMapOfTheirOwnRequest) {
  const VolumeCapability use = Mount("xfs", kMultiWriter);
  const std::string id = Created(CreateRequest("v", use, kXfsBytes, {{"idmap", kIdMapOfTask}}));
  StageAndPublish(id, Target("a"), use);
  ASSERT_EQ(WriteAsTask(Target("a")), 0);
  const std::string plain = Created(CopyRequest("plain", id, use));
  const std::string mapped = Created(CopyRequest("mapped", id, use, 0, {{"idmap", "b:0:200000:65536"}}));
  StageAndPublish(plain, Target("plain"), use);
  StageAndPublish(mapped, Target("mapped"), use);
  EXPECT_EQ(OwnerAt(Target("plain") + "/file"), "0:0");
  EXPECT_EQ(OwnerAt(Target("mapped") + "/file"), "200000:200000");
}

// A filesystem of the host without mapped ids: Publish says so, and leaves nothing.
TEST_F(IdMap, AFilesystemWithoutMappedIdsIsNamed) {
  const std::string path = MakeDirectories("overlay"), lower = MakeDirectories("lower"),
                    upper = MakeDirectories("upper");
  AllowMount(path);
  const std::string layers = "lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + MakeDirectories("work");
  ASSERT_EQ(::mount("none", path.c_str(), "overlay", 0, layers.c_str()), 0);
  RestartWith({"--pool", "name=overlay,backend=directory,path=" + path});
  const VolumeCapability use = Mount("", kMultiWriter);
  const std::string id = Created(CreateRequest("v", use, kVolumeBytes, {{"pool", "overlay"}, {"idmap", kIdMapOfTask}}));
  ASSERT_OK(driver().Stage(id, Staging(id), use));
  ExpectRefused(PublishRequest(id, Staging(id), Target("a"), use), Code::kFailedPrecondition, "has no mapped ids");
  EXPECT_FALSE(MountAt(Target("a")));
}

TEST_F(IdMap, NeverChangesAndIsNoMutableParameter) {
  const std::string id = Created(CreateRequest("v", Mount(), kVolumeBytes, {{"idmap", kIdMapOfTask}}));
  csi::v1::ControllerModifyVolumeRequest modify;
  modify.set_volume_id(id);
  (*modify.mutable_mutable_parameters())["idmap"] = "b:0:200000:65536";
  ExpectRefused(modify, Code::kInvalidArgument, "mutable parameter 'idmap' is unknown");
  ExpectRefused(CreateRequest("v", Mount(), kVolumeBytes, {{"idmap", "b:0:200000:65536"}}), Code::kAlreadyExists,
                "idmap");
  csi::v1::ValidateVolumeCapabilitiesRequest validate = ValidateRequest(id, Mount());
  (*validate.mutable_parameters())["idmap"] = "b:0:200000:65536";
  EXPECT_FALSE(driver().Send(validate)->has_confirmed());
  (*validate.mutable_parameters())["idmap"] = kIdMapOfTask;
  EXPECT_TRUE(driver().Send(validate)->has_confirmed());
}

}  // namespace
}  // namespace mooring::testing

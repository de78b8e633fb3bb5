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

}  // namespace
}  // namespace mooring::testing

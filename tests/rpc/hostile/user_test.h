// A plugin with --user, with a pool of each kind except devices.
#pragma once

#include "tests/rpc/support/helper_processes.h"
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {

inline constexpr uid_t kUser = 4242, kOther = 4343;
inline constexpr gid_t kGroup = 4240;
inline constexpr char kText[] = "4242:4240";
inline constexpr std::chrono::seconds kLong{15};

class UserTest : public RpcTest {
 protected:
  void SetUp() override {
    if (std::getenv("MOORING_TEST_USER") != nullptr) GTEST_SKIP() << "these tests set --user by themselves";
    AllowSocketsOf(kGroup);
    AddFlags({"--pool", "name=dirs,backend=directory,path=" + (dir() / "dirs"), "--pool",
              "name=fast,backend=image,path=" + (dir() / "fast"), "--pool", "name=mem,backend=tmpfs,size=268435456"});
    as_root_ = plugin().options().flags;
  }

  void WorkAs(const std::string& user) {
    plugin().options().flags = as_root_;
    if (!user.empty()) AddFlags({"--user", user});
  }
  // Changes the owner of the existing directories, as an administrator does between two users.
  void GiveDirectoriesTo(const std::string& user) {
    const std::string ids = user.empty() ? "0:0" : user;
    for (const std::string& path : {state_dir(), dir() / "fast", dir() / "dirs"}) {
      const std::string recursively = path.ends_with("/dirs") ? "" : "-R ";
      if (!fs::exists(path)) continue;
      EXPECT_EQ(Shell("chown " + recursively + ids + " " + path), 0);
    }
  }
  void StartAs(const std::string& user) {
    driver().Disconnect();
    if (plugin().running()) {
      EXPECT_EQ(plugin().Terminate(), 0) << plugin().Log();
    }
    GiveDirectoriesTo(user);
    WorkAs(user);
    Start();
  }

  std::string CreatedIn(const std::string& pool) {
    return Created(CreateRequest(pool + "-" + std::to_string(++made_), kSharedMount, kVolumeBytes, {{"pool", pool}}));
  }
  void Publish(const std::string& id) { StageAndPublish(id, Target("a", id), kSharedMount); }
  void TakeDown(const std::string& id) { UnpublishAndUnstage(id, Target("a", id)); }

  // The files of the plugin that belong to another user or group.
  std::vector<std::string> FilesNotOwnedBy(uid_t user, gid_t group) {
    std::vector<std::string> others;
    const auto look = [&](const std::string& path) {
      const struct stat status = StatOf(path);
      if (status.st_uid != user || status.st_gid != group) others.push_back(path);
    };
    for (const std::string& top : {state_dir(), dir() / "dirs", dir() / "fast"}) look(top);
    for (const auto& entry : fs::recursive_directory_iterator(state_dir())) look(entry.path());
    for (const auto& entry : fs::directory_iterator(dir() / "fast")) look(entry.path());
    return others;
  }

  std::vector<std::string> as_root_;

 private:
  int made_ = 0;
};

}  // namespace mooring::testing

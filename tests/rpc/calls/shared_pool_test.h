// Two plugins, as two nodes, with one pool in a directory that both use.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {

inline constexpr char kOtherNode[] = "node-2";

class SharedPool : public RpcTest {
 protected:
  void SetUp() override {
    fs::create_directory(pool_dir());
    fs::permissions(pool_dir(), fs::perms::owner_all);
    AddFlags({"--pool", Flag()});
    Start();
    other_plugin_ = std::make_unique<PluginProcess>(
        PluginProcess::Options{.socket = dir() / "other.sock",
                               .state_dir = dir() / "other-state",
                               .log_file = dir() / "other.log",
                               .flags = {"--node-id", kOtherNode, "--log-level", "debug", "--pool", Flag()}});
    StartOther();
  }
  void TearDown() override {
    if (other_ != nullptr) {
      for (const auto& [id, path] : other_->TakeDone().published) EXPECT_OK(other_->Unpublish(id, path));
      other_->Disconnect();
    }
    if (other_plugin_ != nullptr) {
      EXPECT_EQ(other_plugin_->Terminate(), 0);
    }
    RpcTest::TearDown();
  }
  void StartOther() {
    ASSERT_TRUE(other_plugin_->Start());
    other_ = std::make_unique<Driver>(dir() / "other.sock");
  }

  std::string Flag() const { return "name=nfs,backend=image,shared=true,path=" + pool_dir(); }
  std::string pool_dir() const { return dir() / "pool"; }
  std::string database() const { return pool_dir() + "/.mooring/catalog.db"; }
  std::string ImageOf(const std::string& id) const { return pool_dir() + "/" + id + ".img"; }
  Driver& other() { return *other_; }
  PluginProcess& other_plugin() { return *other_plugin_; }

  static CreateVolumeRequest Request(const std::string& name, std::int64_t bytes = kVolumeBytes) {
    return CreateRequest(name, Mount(), bytes, {{"pool", "nfs"}});
  }
  std::string Shared(const std::string& name = "v") { return Created(Request(name)); }

  // On a node each: attached, staged and published at `target`.
  void Use(Driver& node, const std::string& node_id, const std::string& id, const std::string& target) {
    ASSERT_OK(node.Attach(id, node_id));
    ASSERT_OK(node.Stage(id, StagingOn(node_id, id)));
    ASSERT_OK(node.Publish(id, StagingOn(node_id, id), target));
  }
  void EndUse(Driver& node, const std::string& node_id, const std::string& id, const std::string& target) {
    ASSERT_OK(node.Unpublish(id, target));
    ASSERT_OK(node.Unstage(id, StagingOn(node_id, id)));
    ASSERT_OK(node.Detach(id, node_id));
  }
  std::string StagingOn(const std::string& node_id, const std::string& id) { return Staging(id, "on-" + node_id); }

 private:
  std::unique_ptr<PluginProcess> other_plugin_;
  std::unique_ptr<Driver> other_;
};

}  // namespace mooring::testing

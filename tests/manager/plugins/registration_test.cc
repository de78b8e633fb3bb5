// The registered instances of the set of plugins, with a real state in a file.
#include "manager/state/keys.h"
#include "tests/fakes/broken_state.h"
#include "tests/manager/plugins/plugin_set_fixture.h"

namespace mooring::manager {
namespace {

class RegistrationTest : public PluginSetFixture {
 protected:
  static constexpr InstanceOwner kOther = 2;

  // Opens the state and the set again, from the file.
  void Restart() {
    plugins_.reset();
    state_.reset();
    state_ = OpenSqliteState(dir_ / "state").value();
    OpenSet();
  }

  // "node 2, node 1, controller 1": newest first.
  std::string Instances(const std::string& plugin = "p") {
    std::string all;
    const auto status = plugins_->Find(plugin);
    if (!status.ok()) return "";
    for (const InstanceStatus& each : status->instances) {
      all += (all.empty() ? "" : ", ") + std::string(RoleName(each.instance.type)) + " " + each.instance.instance_id;
    }
    return all;
  }

  // The events so far, as "+1" and "-1".
  std::string Reported() {
    std::string all;
    const auto events = events_.Next(1, Clock::now());
    if (!events.ok()) return "";
    for (const Event& event : *events) {
      if (event.kind == "registered") all += "+" + event.instance;
      if (event.kind == "deregistered") all += "-" + event.instance;
    }
    return all;
  }
};

TEST_F(RegistrationTest, SameInstanceAgainChangesNothing) {
  Register("p", "1");
  Register("p", "2");
  Register("p", "1");
  EXPECT_EQ(Reported(), "+1+2");
  EXPECT_EQ(Instances(), "node 2, node 1");
}

TEST_F(RegistrationTest, InstanceOnAnotherSocketReplacesTheOldEntry) {
  Register("p", "1");
  Register("p", "2");
  InstanceInfo moved = Instance("p", "1");
  moved.socket_path = "/run/elsewhere/csi.sock";
  EXPECT_OK(plugins_->Serve(moved, {kNode}, kOwner));
  EXPECT_EQ(Reported(), "+1+2+1");
  EXPECT_EQ(Instances(), "node 1, node 2");
  EXPECT_EQ(plugins_->Find("p")->instances.front().instance, moved);
}

TEST_F(RegistrationTest, InstanceLosesARoleThatItServesNoMore) {
  Register("p", "1", {kNode, kController});
  EXPECT_EQ(Instances(), "node 1, controller 1");
  Register("p", "1", {kNode});
  EXPECT_EQ(Reported(), "+1+1-1");
  EXPECT_EQ(Instances(), "node 1");
}

TEST_F(RegistrationTest, RefusesMissingFields) {
  for (const auto field : {&InstanceInfo::name, &InstanceInfo::instance_id, &InstanceInfo::socket_path}) {
    InstanceInfo instance = Instance("p", "1");
    instance.*field = "";
    EXPECT_THAT(plugins_->Serve(instance, {kNode}, kOwner), FailsWith(Code::kInvalidArgument, "register plugin"));
  }
  EXPECT_THAT(plugins_->List(), IsEmpty());
}

TEST_F(RegistrationTest, RetireOfUnknownInstancesChangesNothing) {
  Deregister("p", "1");
  Register("p", "1");
  Deregister("q", "1");
  Deregister("p", "2");
  EXPECT_EQ(Reported(), "+1");
  EXPECT_EQ(Instances(), "node 1");
  Deregister("p", "1");
  Deregister("p", "1");
  EXPECT_EQ(Reported(), "+1-1");
  EXPECT_EQ(Instances(), "");
}

// The same endpoint is declared again while its former declaration still ends.
TEST_F(RegistrationTest, RetireSparesTheInstanceOfASuccessor) {
  Register("p", "1", {kNode, kController});
  EXPECT_OK(plugins_->Serve(Instance("p", "1"), {kNode, kController}, kOther));
  Deregister("p", "1");
  EXPECT_EQ(Instances(), "node 1, controller 1");

  EXPECT_TRUE(plugins_->TakeOver("p", "1", kOwner));
  EXPECT_OK(plugins_->Retire("p", "1", kOther));
  EXPECT_EQ(Instances(), "node 1, controller 1");
  EXPECT_EQ(Reported(), "+1+1");
  Deregister("p", "1");
  EXPECT_EQ(Instances(), "");
  EXPECT_FALSE(plugins_->TakeOver("p", "1", kOwner));
}

TEST_F(RegistrationTest, AnybodyMayRetireAnInstanceOfAnEarlierManager) {
  Register("p", "1");
  Register("p", "2");
  Restart();
  EXPECT_OK(plugins_->Retire("p", "1", kEarlierManager));
  EXPECT_OK(plugins_->Retire("p", "2", kOther));
  EXPECT_EQ(Instances(), "");
}

TEST_F(RegistrationTest, RestoresContentsAndOrder) {
  for (const char* const id : {"1", "2", "3"}) Register("p", id);
  InstanceInfo controller = Instance("p", "4");
  controller.version = "1.4";
  controller.provider = "exec";
  controller.mount_point = "/var/lib/mounts";
  controller.container_mount_point = "/mounts";
  ASSERT_OK(plugins_->Serve(controller, {kController}, kOwner));
  Deregister("p", "2");
  Restart();
  EXPECT_EQ(Instances(), "node 3, node 1, controller 4");
  controller.type = kController;
  EXPECT_EQ(plugins_->Find("p")->instances.back().instance, controller);
}

TEST_F(RegistrationTest, StoresBeforeItReturns) {
  Register("p", "1");
  const auto stored = state_->Get(RegistryStateKey("host-1"));
  ASSERT_TRUE(stored.ok() && *stored);
  EXPECT_THAT((*stored)->value, HasSubstr("/run/1/csi.sock"));
  Deregister("p", "1");
  EXPECT_THAT((*state_->Get(RegistryStateKey("host-1")))->value, Not(HasSubstr("/run/1/csi.sock")));
}

TEST_F(RegistrationTest, HostsHaveSeparateInstances) {
  Register("p", "1");
  const auto other = PluginSet::Open(*state_, "host-2", events_, sockets_.connector(), work_);
  ASSERT_OK(other);
  EXPECT_THAT((*other)->List(), IsEmpty());
}

TEST_F(RegistrationTest, FailedStoreChangesNothing) {
  testing::BrokenState state;
  const auto plugins = PluginSet::Open(state, "host-1", events_, sockets_.connector(), work_);
  ASSERT_OK(plugins);
  EXPECT_THAT((*plugins)->Serve(Instance("p", "1"), {kNode}, kOwner),
              FailsWith(Code::kResourceExhausted, "the registry of plugins: the disk is full"));
  EXPECT_THAT((*plugins)->List(), IsEmpty());
  EXPECT_EQ(Reported(), "");
}

}  // namespace
}  // namespace mooring::manager

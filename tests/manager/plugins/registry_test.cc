// The registry of plugin instances, with a real state in a file.
#include "manager/plugins/registry.h"

#include "manager/state/endless_lease.h"
#include "manager/state/keys.h"
#include "manager/state/sqlite_state.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

using ::testing::Field;
using ::testing::Optional;

constexpr PluginType kNode = PluginType::kNode;
constexpr PluginType kController = PluginType::kController;

InstanceInfo Instance(const std::string& name, const std::string& id, PluginType type = kNode) {
  InstanceInfo instance;
  instance.type = type;
  instance.name = name;
  instance.version = "1." + id;
  instance.socket_path = "/run/" + id + "/csi.sock";
  instance.instance_id = id;
  instance.provider = "exec";
  instance.mount_point = "/var/lib/mounts";
  instance.container_mount_point = "/mounts";
  return instance;
}

auto Is(const std::string& id) { return Field(&InstanceInfo::instance_id, id); }

class RegistryTest : public ::testing::Test {
 protected:
  void SetUp() override { Restart(); }

  // Opens the registry again from the file.
  void Restart() {
    registry_.reset();
    state_.reset();
    auto state = OpenSqliteState(dir_ / "state");
    ASSERT_OK(state);
    state_ = *std::move(state);
    auto registry = Registry::Open(*state_, "host-1");
    ASSERT_OK(registry);
    registry_ = *std::move(registry);
  }

  // Gives the waiting events as "+id" and "-id".
  static std::vector<std::string> Drain(Registry::Subscription& subscription) {
    std::vector<std::string> events;
    for (;;) {
      const auto event = subscription.Next(Clock::now());
      if (!event.ok() || !*event) return events;
      const bool is_new = (*event)->kind == RegistryEvent::Kind::kRegistered;
      events.push_back((is_new ? "+" : "-") + (*event)->instance.instance_id);
    }
  }

  TempDir dir_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryTest, SameInstanceAgainChangesNothing) {
  Registry::Subscription events(*registry_, kNode);
  ASSERT_OK(registry_->Register(Instance("p", "1")));
  ASSERT_OK(registry_->Register(Instance("p", "2")));
  ASSERT_OK(registry_->Register(Instance("p", "1")));
  EXPECT_THAT(Drain(events), ElementsAre("+1", "+2"));
  EXPECT_THAT(registry_->Instances(kNode, "p"), ElementsAre(Is("2"), Is("1")));
}

TEST_F(RegistryTest, InstanceOnAnotherSocketReplacesTheOldEntry) {
  ASSERT_OK(registry_->Register(Instance("p", "1")));
  ASSERT_OK(registry_->Register(Instance("p", "2")));
  InstanceInfo moved = Instance("p", "1");
  moved.socket_path = "/run/elsewhere/csi.sock";
  Registry::Subscription events(*registry_, kNode);
  ASSERT_OK(registry_->Register(moved));
  EXPECT_THAT(Drain(events), ElementsAre("+1"));
  EXPECT_THAT(registry_->Instances(kNode, "p"), ElementsAre(moved, Is("2")));
}

TEST_F(RegistryTest, RefusesMissingFields) {
  const auto without = [](auto member) {
    InstanceInfo instance = Instance("p", "1");
    instance.*member = "";
    return instance;
  };
  EXPECT_THAT(registry_->Register(without(&InstanceInfo::name)), FailsWith(Code::kInvalidArgument, "name"));
  EXPECT_THAT(registry_->Register(without(&InstanceInfo::socket_path)),
              FailsWith(Code::kInvalidArgument, "plugin 'p': its socket"));
  EXPECT_THAT(registry_->Register(without(&InstanceInfo::instance_id)),
              FailsWith(Code::kInvalidArgument, "plugin 'p': the instance id"));
  EXPECT_THAT(registry_->List(kNode), IsEmpty());
}

TEST_F(RegistryTest, DeregisterOfUnknownInstances) {
  EXPECT_THAT(registry_->Deregister(kNode, "p", "1"), FailsWith(Code::kNotFound, "'p' (csi-node)"));
  ASSERT_OK(registry_->Register(Instance("p", "1")));
  EXPECT_THAT(registry_->Deregister(kController, "p", "1"), FailsWith(Code::kNotFound, "csi-controller"));
  EXPECT_THAT(registry_->Deregister(kNode, "p", ""), FailsWith(Code::kInvalidArgument, "missing"));

  Registry::Subscription events(*registry_, kNode);
  EXPECT_OK(registry_->Deregister(kNode, "q", "1"));
  EXPECT_OK(registry_->Deregister(kNode, "p", "2"));
  EXPECT_THAT(Drain(events), IsEmpty());
  EXPECT_THAT(registry_->Get(kNode, "p"), Optional(Is("1")));
  EXPECT_OK(registry_->Deregister(kNode, "p", "1"));
  EXPECT_THAT(Drain(events), ElementsAre("-1"));
  EXPECT_OK(registry_->Deregister(kNode, "p", "1"));
}

TEST_F(RegistryTest, ListAndGetGiveTheFront) {
  ASSERT_OK(registry_->Register(Instance("q", "3")));
  ASSERT_OK(registry_->Register(Instance("p", "1")));
  ASSERT_OK(registry_->Register(Instance("p", "2")));
  EXPECT_THAT(registry_->List(kNode), ElementsAre(Is("2"), Is("3")));
  EXPECT_THAT(registry_->Get(kNode, "p"), Optional(Is("2")));
  EXPECT_THAT(registry_->FindInstance("1", kNode), Optional(Instance("p", "1")));
  EXPECT_EQ(registry_->FindInstance("1", kController), std::nullopt);
  EXPECT_EQ(registry_->Get(kNode, "r"), std::nullopt);
}

TEST_F(RegistryTest, SubscribersGetEveryEventInOrder) {
  Registry::Subscription first(*registry_, kNode), second(*registry_, kNode), other(*registry_, kController);
  std::vector<std::string> expected;
  for (int i = 0; i < 50; ++i) {
    const std::string id = std::to_string(i);
    ASSERT_OK(registry_->Register(Instance("p", id)));
    ASSERT_OK(registry_->Deregister(kNode, "p", id));
    expected.insert(expected.end(), {"+" + id, "-" + id});
  }
  EXPECT_EQ(Drain(first), expected);  // nobody read before, and no sender waited
  EXPECT_EQ(Drain(second), expected);
  EXPECT_THAT(Drain(other), IsEmpty());
}

TEST_F(RegistryTest, SubscriptionsEndAtStopAndClose) {
  Registry::Subscription stopped(*registry_, kNode), closed(*registry_, kNode);
  { const Registry::Subscription gone(*registry_, kNode); }
  auto first = std::async(std::launch::async, [&] { return stopped.Next(Soon()).status(); });
  stopped.Stop();
  EXPECT_THAT(first.get(), FailsWith(Code::kCancelled, "stopped"));

  ASSERT_OK(registry_->Register(Instance("p", "1")));
  registry_->Close();
  EXPECT_THAT(Drain(closed), ElementsAre("+1"));  // sent before the end
  EXPECT_THAT(closed.Next(Soon()), FailsWith(Code::kCancelled, "closed"));
  EXPECT_THAT(registry_->Register(Instance("p", "2")), FailsWith(Code::kCancelled, "closed"));
}

TEST_F(RegistryTest, RestoresContentsAndOrder) {
  ASSERT_OK(registry_->Register(Instance("p", "1")));
  ASSERT_OK(registry_->Register(Instance("p", "2")));
  ASSERT_OK(registry_->Register(Instance("p", "3")));
  ASSERT_OK(registry_->Register(Instance("p", "4", kController)));
  ASSERT_OK(registry_->Deregister(kNode, "p", "2"));
  Restart();
  EXPECT_THAT(registry_->Instances(kNode, "p"), ElementsAre(Instance("p", "3"), Instance("p", "1")));
  EXPECT_THAT(registry_->Instances(kController, "p"), ElementsAre(Instance("p", "4", kController)));
}

TEST_F(RegistryTest, StoresBeforeItSendsTheEvent) {
  Registry::Subscription events(*registry_, kNode);
  auto stored_first = std::async(std::launch::async, [&] {
    const auto event = events.Next(Soon());
    const auto stored = state_->Get(RegistryStateKey("host-1"));
    return event.ok() && *event && stored.ok() && *stored &&
           (*stored)->value.find("/run/1/csi.sock") != std::string::npos;
  });
  ASSERT_OK(registry_->Register(Instance("p", "1")));
  EXPECT_TRUE(stored_first.get());
}

TEST_F(RegistryTest, HostsHaveSeparateRegistries) {
  ASSERT_OK(registry_->Register(Instance("p", "1")));
  const auto other = Registry::Open(*state_, "host-2");
  ASSERT_OK(other);
  EXPECT_THAT((*other)->List(kNode), IsEmpty());
}

// A state whose commits fail.
class BrokenState final : public State {
 public:
  Lease& lease() override { return lease_; }
  absl::StatusOr<Listing> Read(const std::vector<std::string>&, const std::optional<std::string>&, Freshness) override {
    return Listing();
  }
  absl::StatusOr<std::int64_t> DoCommit(const Transaction&) override { return ResourceExhausted("the disk is full"); }
  absl::StatusOr<std::unique_ptr<Watch>> StartWatch(const std::string&, std::int64_t) override {
    return Unimplemented("none");
  }
  void EndWatches() override {}

 private:
  EndlessLease lease_;
};

TEST(RegistryWithoutStateTest, FailedStoreChangesNothing) {
  BrokenState state;
  const auto registry = Registry::Open(state, "host-1");
  ASSERT_OK(registry);
  Registry::Subscription events(**registry, kNode);
  EXPECT_THAT((*registry)->Register(Instance("p", "1")),
              FailsWith(Code::kResourceExhausted, "the registry of plugins: the disk is full"));
  EXPECT_THAT((*registry)->List(kNode), IsEmpty());
  EXPECT_EQ(*events.Next(Clock::now()), std::nullopt);
}

}  // namespace
}  // namespace mooring::manager

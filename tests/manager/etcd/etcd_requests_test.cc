// Hosts that call controllers of each other through a real etcd.
#include "tests/manager/etcd/etcd_store.h"
#include "tests/manager/requests/requests_fixture.h"
#include "tests/manager/state/state_fixture.h"

namespace mooring::manager {
namespace {

class EtcdRequestsTest : public ::testing::Test {
 protected:
  EtcdRequestsTest() : settings_(NewSettings(SharedCluster())) {
    settings_.secrets_key_file = directory_ / "key";
    std::ofstream(settings_.secrets_key_file) << std::string(64, 'a');
    fs::permissions(settings_.secrets_key_file, fs::perms::owner_read | fs::perms::owner_write);
  }

  struct EtcdHost {
    explicit EtcdHost(std::unique_ptr<State> opened, const std::string& name)
        : state(std::move(opened)), host(*state, name) {}
    EtcdHost(const EtcdHost&) = delete;
    EtcdHost& operator=(const EtcdHost&) = delete;
    ~EtcdHost() { state->EndWatches(); }
    const std::unique_ptr<State> state;
    SharingHost host;
  };

  std::unique_ptr<EtcdHost> Start(const std::string& name) {
    settings_.host = name;
    settings_.id = "id-" + name;
    auto opened = OpenEtcdState(settings_);
    EXPECT_OK(opened);
    return opened.ok() ? std::make_unique<EtcdHost>(*std::move(opened), name) : nullptr;
  }

  // Ends the lease as etcd does: with all keys below it. The host takes a new one.
  void EndLease(EtcdHost& host) {
    const std::int64_t before = host.state->lease().Number();
    // The test knows no id of the lease, so it deletes the key that each commit compares, and the leased worker key.
    ASSERT_EQ(SharedCluster().Control({"del", settings_.prefix + LiveKey("a")}), 0);
    ASSERT_EQ(SharedCluster().Control({"del", "--prefix", settings_.prefix + RequestWorkersPrefix()}), 0);
    ASSERT_EQ(SharedCluster().Control({"del", settings_.prefix + ControllerStateKey(kPlugin, "a")}), 0);
    (void)host.state->Commit(Put("x", "1"));  // the host notices
    ASSERT_TRUE(WaitUntil([&] { return host.state->lease().Number() > before; }));
    host.host.sharing->LeaseChanged();
  }

  bool NothingIsLeft(State& state) {
    return WaitUntil([&] {
      const auto listing = state.List("shared/request");
      return listing.ok() && listing->values.empty();
    });
  }

  TempDir directory_;
  EtcdSettings settings_;
  const std::shared_ptr<FakeCsiVolumes> volumes_ = std::make_shared<FakeCsiVolumes>();
};

TEST_F(EtcdRequestsTest, CallWithSecretsIsMadeByAnotherHost) {
  const auto a = Start("a"), c = Start("c");
  const auto plugin = a->host.AddPlugin(volumes_);
  ASSERT_TRUE(c->host.Sees(1));
  auto request = Create("db");
  (*request.mutable_secrets())["password"] = "hunter2";
  const auto answer = c->host.Call(request);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->volume().volume_id(), "vol-1");
  EXPECT_EQ(plugin->Requests<csi::v1::CreateVolumeRequest>().at(0).secrets().at("password"), "hunter2");
  EXPECT_TRUE(NothingIsLeft(*c->state));
}

TEST_F(EtcdRequestsTest, WithoutAKeyFileSecretsAreRefused) {
  const auto a = Start("a");
  settings_.secrets_key_file = "";
  const auto c = Start("c");
  (void)a->host.AddPlugin(volumes_);
  ASSERT_TRUE(c->host.Sees(1));
  auto request = Create("db");
  (*request.mutable_secrets())["password"] = "hunter2";
  EXPECT_THAT(c->host.Call(request), FailsWith(Code::kFailedPrecondition, "has no key file for secrets"));
  EXPECT_OK(c->host.Call(Create("db")));
}

TEST_F(EtcdRequestsTest, OtherHostSucceedsOneWhoseLeaseEnds) {
  const auto a = Start("a"), b = Start("b"), c = Start("c");
  const auto plugin_a = a->host.AddPlugin(volumes_);
  ASSERT_TRUE(c->host.Sees(1));
  const auto plugin_b = b->host.AddPlugin(volumes_);
  ASSERT_TRUE(c->host.Sees(2));
  plugin_a->Hang("CreateVolume");
  auto call = std::async(std::launch::async, [&] { return c->host.Call(Create("db")).status(); });
  ASSERT_TRUE(plugin_a->WaitForCalls("CreateVolume", 1));
  EndLease(*a);
  EXPECT_OK(call.get());
  EXPECT_EQ(plugin_b->Count("CreateVolume"), 1);
  plugin_a->Release();
  EXPECT_TRUE(WaitUntil([&] { return a->host.sharing->metrics().worked.dropped == 1; }));
  EXPECT_TRUE(NothingIsLeft(*c->state));
  EXPECT_TRUE(c->host.Sees(2)) << "the offer is put again under the next lease";
}

TEST_F(EtcdRequestsTest, WatchesGoOnAfterACompaction) {
  const auto a = Start("a"), c = Start("c");
  (void)a->host.AddPlugin(volumes_);
  ASSERT_TRUE(c->host.Sees(1));
  std::int64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_OK(c->host.Call(Create("db")));
    const auto revision = c->state->Commit(Put("x", std::to_string(i)));
    ASSERT_OK(revision);
    last = *revision;
  }
  ASSERT_EQ(SharedCluster().Control({"compact", std::to_string(last)}), 0);
  for (int i = 0; i < 10; ++i) EXPECT_OK(c->host.Call(Create("db")));
  EXPECT_TRUE(NothingIsLeft(*c->state));
}

}  // namespace
}  // namespace mooring::manager

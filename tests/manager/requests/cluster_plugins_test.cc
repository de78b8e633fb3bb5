// The plugins of a host with the controllers that other hosts offer.
#include <atomic>

#include "manager/requests/controller_offers.h"
#include "tests/manager/requests/requests_fixture.h"

namespace mooring::manager {
namespace {

using ClusterPluginsTest = RequestsFixture;

TEST(ControllerOfferTest, KeepsAllTraitsOfAController) {
  PluginTraits traits;
  traits.controller_service = traits.group_controller_service = traits.topology = true;
  traits.expands_online = traits.expands_offline = true;
  traits.creates = traits.publishes = traits.publishes_read_only = traits.lists = true;
  traits.snapshots = traits.lists_snapshots = traits.clones = traits.controller_expands = true;
  traits.controller_single_writer = true;
  ControllerOffer offer{"p", "h", {}};
  offer.fingerprint.traits = traits;
  offer.fingerprint.driver_name = "d";
  offer.fingerprint.vendor_version = "1.2";
  const auto read = ToOffer({.key = ControllerStateKey("p", "h"), .value = ToValue(offer)});
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->plugin, "p");
  EXPECT_EQ(read->host, "h");
  EXPECT_TRUE(read->fingerprint.SameDescription(offer.fingerprint));
  EXPECT_TRUE(read->fingerprint.healthy && read->fingerprint.complete);
  EXPECT_FALSE(ToOffer({.key = ControllerStateKey("p", "h"), .value = "\xFF"}).has_value());
}

TEST_F(ClusterPluginsTest, LocalControllerComesFirst) {
  StartBoth();
  for (int i = 0; i < 3; ++i) EXPECT_OK(a_->Call(Create("db" + std::to_string(i))));
  EXPECT_EQ(plugin_a_->Count("CreateVolume"), 3);
  EXPECT_THAT(Keys("shared/request"), IsEmpty());
}

csi::v1::ControllerPublishVolumeRequest PublishOn(const std::string& node) {
  csi::v1::ControllerPublishVolumeRequest request;
  request.set_volume_id("vol-1");
  request.set_node_id(node);
  request.mutable_volume_capability()->mutable_mount();
  request.mutable_volume_capability()->mutable_access_mode()->set_mode(
      csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  return request;
}

// Hosts "a", "b" and "c" have controllers of one plugin. Only "b" has the pool of the volume.
class RefusingControllersTest : public RequestsFixture {
 protected:
  RefusingControllersTest() {
    volumes_->Add("vol-1");
    plugin_b_ = b_->AddPlugin(volumes_);
    plugin_a_ = a_->AddPlugin(std::make_shared<FakeCsiVolumes>());
    plugin_c_ = c_->AddPlugin(std::make_shared<FakeCsiVolumes>());
    for (const auto& plugin : {plugin_a_, plugin_c_}) plugin->FailAlways("ControllerPublishVolume", kRefused);
    volume_.plugin = kPlugin;
    volume_.external_id = "vol-1";
    EXPECT_TRUE(a_->Sees(3) && b_->Sees(3) && c_->Sees(3));
  }
  absl::Status Publish(TestHost& host, const ControllerFor& controller) {
    const auto picked = host->sharing->plugins().PickController(controller, Soon());
    MOORING_RETURN_IF_ERROR(picked.status());
    return manager::Call(*picked->channel, PublishOn("node-1"), Soon()).status();
  }

  const absl::Status kRefused = FailedPrecondition("the pool is not one of this plugin's");
  std::shared_ptr<FakeCsiPlugin> plugin_c_;
  Volume volume_;
};

TEST_F(RefusingControllersTest, ControllerThatHasTheVolumeIsFound) {
  EXPECT_OK(Publish(a_, ControllerFor(volume_)));
  EXPECT_OK(Publish(c_, ControllerFor(volume_)));
  EXPECT_EQ(plugin_b_->Count("ControllerPublishVolume"), 2);
  EXPECT_LE(plugin_a_->Count("ControllerPublishVolume"), 2) << "nobody is asked twice in one call";
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(RefusingControllersTest, RefusalOfAllNamesTheHosts) {
  plugin_b_->FailAlways("ControllerPublishVolume", NotFound("no such node"));
  const absl::Status refused = Publish(a_, ControllerFor(volume_));
  EXPECT_THAT(refused, FailsWith(Code::kFailedPrecondition, "on host 'a': the pool is not one of this plugin's"));
  EXPECT_THAT(refused, FailsWith(Code::kFailedPrecondition, "on host 'b': no such node")) << "NOT_FOUND does not win";
  for (const auto& plugin : {plugin_a_, plugin_b_, plugin_c_}) EXPECT_EQ(plugin->Count("ControllerPublishVolume"), 1);
}

TEST_F(RefusingControllersTest, EqualRefusalsAreToldOnce) {
  plugin_b_->FailAlways("ControllerPublishVolume", kRefused);
  EXPECT_EQ(Message(Publish(a_, ControllerFor(volume_))),
            "ControllerPublishVolume: the pool is not one of this plugin's");
}

// A controller of another host would make a new volume in a pool of its own.
TEST_F(RefusingControllersTest, NewVolumeIsMadeByOneHostOnly) {
  Volume creating = volume_;
  creating.external_id.clear();
  creating.created_here = true;
  EXPECT_EQ(Publish(a_, ControllerFor(creating)).code(), Code::kFailedPrecondition);
  EXPECT_EQ(plugin_b_->Count("ControllerPublishVolume"), 0);
}

TEST_F(RefusingControllersTest, UnclearAnswerIsNotHiddenByARefusal) {
  plugin_b_->FailAlways("ControllerPublishVolume", Internal("half-way"));
  EXPECT_THAT(Publish(a_, ControllerFor(volume_)), FailsWith(Code::kInternal, "half-way"));
}

TEST_F(ClusterPluginsTest, StatusCountsControllersOfOtherHosts) {
  StartBoth();
  const auto status = c_->sharing->plugins().Find(kPlugin);
  ASSERT_OK(status);
  EXPECT_EQ(status->nodes, (RoleCount{1, 1}));
  EXPECT_EQ(status->controllers, (RoleCount{2, 2}));
  EXPECT_TRUE(status->controller_required);
  EXPECT_TRUE(status->schedulable());
  ASSERT_EQ(status->instances.size(), 3U);
  EXPECT_EQ(status->instances[1].instance.provider, "host");
  EXPECT_EQ(status->instances[1].instance.instance_id, "a");
  EXPECT_EQ(status->instances[2].instance.instance_id, "b");
  EXPECT_TRUE(status->instances[1].fingerprint.traits.publishes);
  const auto list = c_->sharing->plugins().List();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].controllers, (RoleCount{2, 2}));
  EXPECT_EQ(a_->sharing->plugins().Find(kPlugin)->controllers, (RoleCount{2, 2})) << "its own, and that of b";
}

TEST_F(ClusterPluginsTest, PluginOfOtherHostsIsFound) {
  StartBoth();
  c_->plugins.Remove(kPlugin);
  const auto status = c_->sharing->plugins().Find(kPlugin);
  ASSERT_OK(status);
  EXPECT_EQ(status->name, kPlugin);
  EXPECT_EQ(status->nodes, (RoleCount{0, 0}));
  EXPECT_EQ(status->controllers, (RoleCount{2, 2}));
  EXPECT_FALSE(status->schedulable());
  EXPECT_EQ(c_->sharing->plugins().List().size(), 1U);
  EXPECT_THAT(c_->sharing->plugins().Find("unknown.csi"), FailsWith(Code::kNotFound, "unknown.csi"));
}

TEST_F(ClusterPluginsTest, WithoutAnyControllerTheErrorNamesBothReasons) {
  c_->plugins.SetHealthy(kPlugin, true, false, "out of paper");
  EXPECT_THAT(c_->sharing->plugins().PickController(kPlugin, Clock::now() + milliseconds(50)),
              FailsWith(Code::kUnavailable, "out of paper; and no other host offers a controller of it"));
}

TEST_F(ClusterPluginsTest, PickControllerWaitsForAnOffer) {
  auto picked =
      std::async(std::launch::async, [this] { return c_->sharing->plugins().PickController(kPlugin, Soon()); });
  std::this_thread::sleep_for(milliseconds(50));
  a_->AddPlugin(volumes_);
  const auto controller = picked.get();
  ASSERT_OK(controller);
  EXPECT_EQ(controller->instance.instance_id, "a");
  EXPECT_EQ(controller->fingerprint.driver_name, kPlugin);
}

TEST_F(ClusterPluginsTest, SickControllerIsNotOffered) {
  StartBoth();
  a_->plugins.SetHealthy(kPlugin, true, false);
  EXPECT_TRUE(c_->Sees(1));
  for (int i = 0; i < 2; ++i) EXPECT_OK(c_->Call(Create("db" + std::to_string(i))));
  EXPECT_EQ(plugin_b_->Count("CreateVolume"), 2);
  a_->plugins.SetHealthy(kPlugin, true, true);
  EXPECT_TRUE(c_->Sees(2));
}

TEST_F(ClusterPluginsTest, RequestWithoutAnyOfferIsUnavailable) {
  a_->AddPlugin(volumes_);
  ASSERT_TRUE(c_->Sees(1));
  const auto controller = c_->sharing->plugins().PickController(kPlugin, Soon());
  ASSERT_OK(controller);
  a_->plugins.SetHealthy(kPlugin, true, false);
  ASSERT_TRUE(c_->Sees(0));
  EXPECT_THAT(manager::Call(*controller->channel, Create("db"), Soon()),
              FailsWith(Code::kUnavailable, "no other host has a healthy controller of plugin 'fake.csi' any more"));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(ClusterPluginsTest, OffersEndWithTheLeaseAndComeBackWithTheNext) {
  StartBoth();
  a_.state.EndLease();
  EXPECT_TRUE(c_->Sees(1));
  a_.state.TakeLease();
  EXPECT_TRUE(c_->Sees(2));
}

TEST_F(ClusterPluginsTest, OfferThatSomebodyDeletesIsPutAgain) {
  StartBoth();
  Transaction deletes;
  deletes.deletes.push_back(ControllerStateKey(kPlugin, "a"));
  ASSERT_OK(store_.Commit(deletes));
  EXPECT_TRUE(WaitUntil([this] { return Keys(ControllersPrefix()).size() == 2; }));
}

TEST_F(ClusterPluginsTest, StopWithdrawsTheOffers) {
  StartBoth();
  a_.state.EndWatches();
  a_->sharing->Stop();
  EXPECT_THAT(Keys(ControllersPrefix()), ElementsAre(ControllerStateKey(kPlugin, "b")));
}

TEST_F(ClusterPluginsTest, FirstAndLastOfferAreTold) {
  std::atomic<int> told = 0;
  c_->sharing->OnChange([&](const std::string& plugin) {
    EXPECT_EQ(plugin, kPlugin);
    ++told;
  });
  StartBoth();
  a_.Die();
  ASSERT_TRUE(c_->Sees(1));
  EXPECT_EQ(told, 1);
  b_.Die();
  EXPECT_TRUE(WaitUntil([&] { return told == 2; }));
  const auto events = c_->events.Next(1, Clock::now());
  ASSERT_OK(events);
  ASSERT_EQ(events->size(), 2U);
  EXPECT_EQ(events->at(0).text, "another host offers a controller");
  EXPECT_EQ(events->at(1).text, "no other host offers a controller any more");
  c_->sharing->BeginStop();
  c_.state.EndWatches();
  c_->sharing->Stop();
}

}  // namespace
}  // namespace mooring::manager

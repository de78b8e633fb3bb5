// The metrics page of the plugin, with real stores and with pools of the test's own. tests/rpc/calls/metrics_test.cc
// reads it from a real plugin over a socket.
#include "plugin/process/plugin_metrics.h"

#include "base/version.h"
#include "tests/support/scrape.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

// An empty pool of the size that the test sets.
class FakePool final : public Backend {
 public:
  explicit FakePool(const absl::StatusOr<BackendCapacity>& room) : room_(room) {}

  absl::Status Create(const VolumeDraft&) override { return absl::OkStatus(); }
  absl::Status Copy(const std::vector<CopyDraft>&) override { return absl::OkStatus(); }
  absl::Status CheckUnused(const std::string&) override { return absl::OkStatus(); }
  absl::Status Delete(const std::string&) override { return absl::OkStatus(); }
  absl::Status Grow(const std::string&, std::uint64_t) override { return absl::OkStatus(); }
  absl::StatusOr<VolumeLocation> Locate(const std::string&) const override { return VolumeLocation(); }
  absl::StatusOr<BackendCapacity> Capacity() const override { return room_; }
  absl::StatusOr<std::vector<std::string>> Reconcile() override { return std::vector<std::string>(); }

 private:
  const absl::StatusOr<BackendCapacity>& room_;
};

class PluginMetricsTest : public ::testing::Test {
 protected:
  PluginMetricsTest() {
    std::vector<Pool> pools;
    pools.push_back({"default", BackendKind::kImage, std::make_unique<FakePool>(disk_)});
    pools.push_back({"mem", BackendKind::kTmpfs, std::make_unique<FakePool>(memory_)});
    pools_ = std::make_unique<Pools>(std::move(pools));
    catalog_ = *CatalogStore::Open(dir_ / "catalog.db");
    snapshots_ = std::make_unique<SnapshotStore>(catalog_->files());
    node_ = *NodeStore::Open(dir_ / "node.db", "boot");
    metrics_ = std::make_unique<PluginMetrics>(PluginMetrics::Sources{
        *pools_, *catalog_, *snapshots_, *node_, readiness_, [this] { return helper_; }, [this] { return restarts_; },
        [this] { return hanging_; }, [this] { return preflight_; }});
  }

  Scrape Now() const { return ParseScrape(metrics_->Text()); }

  void AddVolume(const std::string& id, const std::string& pool, VolumeState state, std::uint64_t bytes) {
    VolumeRecord volume;
    volume.id = volume.name = id;
    volume.pool = pool;
    volume.state = state;
    volume.bytes = bytes;
    EXPECT_EQ(*catalog_->Insert(volume), true);
  }

  void AddUse(const std::string& path, VolumeUse::Role role, AccessType access, bool done) {
    VolumeUse use;
    use.path = path;
    use.volume_id = "v";
    use.role = role;
    use.access_type = access;
    use.done = done;
    EXPECT_OK(node_->Put(use));
  }

  TempDir dir_;
  absl::StatusOr<BackendCapacity> disk_ = BackendCapacity{.total = 1000, .available = 300};
  absl::StatusOr<BackendCapacity> memory_ = BackendCapacity{.total = 500, .available = 500};
  absl::Status helper_;
  std::uint64_t restarts_ = 0;
  std::size_t hanging_ = 0;
  absl::Status preflight_;
  Readiness readiness_;
  std::unique_ptr<Pools> pools_;
  std::unique_ptr<CatalogStore> catalog_;
  std::unique_ptr<SnapshotStore> snapshots_;
  std::unique_ptr<NodeStore> node_;
  std::unique_ptr<PluginMetrics> metrics_;
};

TEST_F(PluginMetricsTest, HasTheVersionAndTheHealth) {
  EXPECT_EQ(Now()[std::string("mooring_plugin_build_info{commit=\"") + Commit() + "\",version=\"" + Version() + "\"}"],
            1);
  EXPECT_EQ(Now()["mooring_plugin_ready"], 0);
  EXPECT_EQ(Now()["mooring_plugin_helper_up"], 1);
  readiness_.Set(absl::OkStatus());
  helper_ = Unavailable("it has ended");
  restarts_ = 3;
  hanging_ = 2;
  EXPECT_EQ(Now()["mooring_plugin_preflight_ok"], 1);
  preflight_ = FailedPrecondition("there is no /dev/loop-control");
  EXPECT_EQ(Now()["mooring_plugin_ready"], 1);
  EXPECT_EQ(Now()["mooring_plugin_helper_up"], 0);
  EXPECT_EQ(Now()["mooring_plugin_helper_restarts_total"], 3);
  EXPECT_EQ(Now()["mooring_plugin_helper_calls_hanging"], 2);
  EXPECT_EQ(Now()["mooring_plugin_preflight_ok"], 0);
  readiness_.Set(Internal("the catalog is damaged"));
  EXPECT_EQ(Now()["mooring_plugin_ready"], 0);
}

TEST_F(PluginMetricsTest, VolumesByPoolAndState) {
  AddVolume("a", "default", VolumeState::kReady, 100);
  AddVolume("b", "default", VolumeState::kReady, 50);
  AddVolume("c", "default", VolumeState::kDeleting, 7);
  AddVolume("d", "mem", VolumeState::kCreating, 30);
  AddVolume("e", "gone", VolumeState::kReady, 11);
  const Scrape now = Now();
  EXPECT_EQ(now["mooring_plugin_volumes{backend=\"image\",pool=\"default\",state=\"ready\"}"], 2);
  EXPECT_EQ(now["mooring_plugin_volumes{backend=\"image\",pool=\"default\",state=\"deleting\"}"], 1);
  EXPECT_EQ(now["mooring_plugin_volumes{backend=\"image\",pool=\"default\",state=\"creating\"}"], 0);
  EXPECT_EQ(now["mooring_plugin_volumes{backend=\"tmpfs\",pool=\"mem\",state=\"creating\"}"], 1);
  EXPECT_EQ(now["mooring_plugin_volumes{backend=\"unknown\",pool=\"gone\",state=\"ready\"}"], 1);
  EXPECT_EQ(now["mooring_plugin_provisioned_bytes{backend=\"image\",pool=\"default\"}"], 157);
  EXPECT_EQ(now["mooring_plugin_catalog_up"], 1);
  EXPECT_OK(catalog_->Delete("a"));
  EXPECT_EQ(Now()["mooring_plugin_volumes{backend=\"image\",pool=\"default\",state=\"ready\"}"], 1);
}

// Another unfinished record at each scrape is no reason for an alarm.
TEST(UnfinishedAgesTest, AreTheAgesOfTheOldestRecords) {
  using std::chrono::minutes;
  const UnfinishedAges::Clock::time_point start = UnfinishedAges::Clock::now();
  UnfinishedAges ages;
  for (int i = 0; i < 60; ++i) {
    const auto seen = ages.See({{"v" + std::to_string(i), "default"}}, start + minutes(i));
    EXPECT_EQ(seen.at("default"), minutes(0));
  }
  ages.See({{"a", "default"}, {"x", "mem"}}, start);
  ages.See({{"b", "default"}, {"a", "default"}}, start + minutes(1));
  const auto seen = ages.See({{"a", "default"}, {"b", "default"}, {"x", "mem"}}, start + minutes(3));
  EXPECT_EQ(seen.at("default"), minutes(3));
  EXPECT_EQ(seen.at("mem"), minutes(0)) << "it was finished in between";
  EXPECT_TRUE(ages.See({}, start + minutes(4)).empty());
}

TEST_F(PluginMetricsTest, HasTheAgeOfUnfinishedRecords) {
  const std::string image = "mooring_plugin_unfinished_seconds{backend=\"image\",pool=\"default\"}";
  const std::string memory = "mooring_plugin_unfinished_seconds{backend=\"tmpfs\",pool=\"mem\"}";
  AddVolume("a", "default", VolumeState::kReady, 100);
  AddVolume("b", "mem", VolumeState::kDeleting, 100);
  SnapshotRecord snapshot;
  snapshot.id = snapshot.name = "s";
  snapshot.pool = "mem";
  snapshot.state = SnapshotState::kCreating;
  ASSERT_OK(snapshots_->Insert(snapshot));
  EXPECT_EQ(Now()[memory], 0) << "seen for the first time";
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(Now()[memory], 0.02);
  EXPECT_EQ(Now()[image], 0);
  EXPECT_OK(catalog_->Delete("b"));
  EXPECT_GE(Now()[memory], 0.02) << "the snapshot's";
  EXPECT_OK(snapshots_->Delete("s"));
  EXPECT_EQ(Now()[memory], 0);
}

TEST_F(PluginMetricsTest, HasTheFreeSpaceOfPoolsAndTheUnusedMemory) {
  AddVolume("d", "mem", VolumeState::kReady, 30);
  const Scrape now = Now();
  EXPECT_EQ(now["mooring_plugin_pool_up{backend=\"image\",pool=\"default\"}"], 1);
  EXPECT_EQ(now["mooring_plugin_pool_capacity_bytes{backend=\"image\",pool=\"default\"}"], 1000);
  EXPECT_EQ(now["mooring_plugin_pool_free_bytes{backend=\"image\",pool=\"default\"}"], 300);
  EXPECT_EQ(now["mooring_plugin_pool_used_bytes{backend=\"image\",pool=\"default\"}"], 700);
  EXPECT_EQ(now["mooring_plugin_pool_nearly_full{backend=\"image\",pool=\"default\"}"], 0);
  EXPECT_EQ(now["mooring_plugin_pool_free_bytes{backend=\"tmpfs\",pool=\"mem\"}"], 470);
  EXPECT_EQ(now["mooring_plugin_pool_used_bytes{backend=\"tmpfs\",pool=\"mem\"}"], 30);
  disk_->shortage = "nearly full";
  EXPECT_EQ(Now()["mooring_plugin_pool_nearly_full{backend=\"image\",pool=\"default\"}"], 1);
}

TEST_F(PluginMetricsTest, AnUnreadablePoolIsDownAndTheOthersAreListed) {
  disk_ = Internal("Input/output error");
  const Scrape now = Now();
  EXPECT_EQ(now["mooring_plugin_pool_up{backend=\"image\",pool=\"default\"}"], 0);
  EXPECT_EQ(now["mooring_plugin_pool_free_bytes{backend=\"image\",pool=\"default\"}"], -1);
  EXPECT_EQ(now["mooring_plugin_pool_up{backend=\"tmpfs\",pool=\"mem\"}"], 1);
}

TEST_F(PluginMetricsTest, CountsMounts) {
  AddUse("/stage", VolumeUse::Role::kStage, AccessType::kMount, true);
  AddUse("/a", VolumeUse::Role::kTarget, AccessType::kMount, true);
  AddUse("/b", VolumeUse::Role::kTarget, AccessType::kMount, true);
  AddUse("/c", VolumeUse::Role::kTarget, AccessType::kBlock, true);
  AddUse("/begun", VolumeUse::Role::kTarget, AccessType::kMount, false);
  const Scrape now = Now();
  EXPECT_EQ(now["mooring_plugin_mounts{access=\"mount\",kind=\"staged\"}"], 1);
  EXPECT_EQ(now["mooring_plugin_mounts{access=\"mount\",kind=\"published\"}"], 2);
  EXPECT_EQ(now["mooring_plugin_mounts{access=\"block\",kind=\"published\"}"], 1);
  EXPECT_EQ(now["mooring_plugin_mounts{access=\"block\",kind=\"staged\"}"], 0);
  EXPECT_EQ(now["mooring_plugin_node_records_up"], 1);
  EXPECT_OK(node_->Delete("/a"));
  EXPECT_EQ(Now()["mooring_plugin_mounts{access=\"mount\",kind=\"published\"}"], 1);
}

TEST_F(PluginMetricsTest, ErrorCountersOfEveryCallExistFromTheStart) {
  const Scrape now = Now();
  for (const char* method : {"Probe", "CreateVolume", "CreateVolumeGroupSnapshot", "GetMetadataDelta", "NodeGetInfo"}) {
    EXPECT_EQ(now["mooring_plugin_rpcs_total{code=\"INTERNAL\",method=\"" + std::string(method) + "\"}"], 0) << method;
  }
}

TEST_F(PluginMetricsTest, NamesNoVolume) {
  AddVolume("vol-0123", "default", VolumeState::kReady, 100);
  metrics_->rpcs().Begin("Probe");
  metrics_->rpcs().End("Probe", StatusCode::kOk, std::chrono::microseconds(1));
  const std::string page = metrics_->Text();
  EXPECT_THAT(page, ::testing::HasSubstr("mooring_plugin_rpcs_total{code=\"OK\",method=\"Probe\"} 1"));
  EXPECT_THAT(page, ::testing::Not(::testing::HasSubstr("vol-0123")));
}

}  // namespace
}  // namespace mooring::testing

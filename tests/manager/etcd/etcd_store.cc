#include "tests/manager/etcd/etcd_store.h"

#include <sys/stat.h>

#include "tests/manager/state/state_fixture.h"

namespace mooring::manager {
namespace {

class EtcdStore final : public Store {
 public:
  EtcdStore() : settings_(NewSettings(SharedCluster())) {
    settings_.secrets_key_file = directory_ / "key";
    std::ofstream(settings_.secrets_key_file) << std::string(64, 'a') << "\n";
    ::chmod(settings_.secrets_key_file.c_str(), 0600);
  }

  std::unique_ptr<State> Open() override {
    auto opened = OpenEtcdState(settings_);
    EXPECT_OK(opened);
    return opened.ok() ? *std::move(opened) : nullptr;
  }

 private:
  TempDir directory_;
  EtcdSettings settings_;
};

}  // namespace

EtcdSettings NewSettings(const testing::EtcdCluster& cluster) {
  static int made = 0;
  EtcdSettings settings;
  settings.connection.endpoints = cluster.endpoints();
  settings.prefix = "/test-" + std::to_string(++made) + "/";
  settings.host = "host-1";
  settings.id = "id-1";
  settings.lease_ttl = seconds(600);  // an end of a lease makes a revision, which would disturb other tests
  return settings;
}

std::unique_ptr<Store> NewStore() { return std::make_unique<EtcdStore>(); }

}  // namespace mooring::manager

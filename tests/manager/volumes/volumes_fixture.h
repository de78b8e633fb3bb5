// Volumes with a plugin in memory, and a volume to create.
#pragma once

#include "tests/manager/volumes/claims_fixture.h"

namespace mooring::manager {

class VolumesFixture : public ClaimsFixture {
 protected:
  static constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

  static Volume Asked(const std::string& id = "db") {
    Volume volume;
    volume.key.id = id;
    volume.plugin = "fake.csi";
    volume.capabilities = {kWriter, kWriters};
    volume.min_bytes = kGiB;
    volume.parameters = {{"tier", "fast"}};
    volume.secrets = Password("hunter2");
    return volume;
  }
  absl::StatusOr<Volume> Create(const Volume& volume) { return volumes_->Create(volume, Soon()); }
  absl::Status Delete(const std::string& id = "db") { return volumes_->Delete({"default", id}, Soon()); }

  void Can(const std::function<void(testing::FakeCsiFeatures&)>& change) {
    auto features = plugin_->features();
    change(features);
    plugin_->SetFeatures(features);
  }
  std::vector<Volume> All() {
    const auto all = volumes_->List("");
    EXPECT_OK(all);
    return all.value_or(std::vector<Volume>());
  }
};

}  // namespace mooring::manager

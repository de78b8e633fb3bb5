// A backend over the kernel of a FakeMounter: a volume is an image file there.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/text/quote.h"
#include "plugin/backends/interface/backend.h"
#include "tests/fakes/fake_mounter.h"

namespace mooring::fuzz {

class FakePool final : public Backend {
 public:
  FakePool(std::string directory, testing::FakeMounter& mounter) : directory_(std::move(directory)), mounter_(mounter) {
    mounter_.With([this](testing::FakeKernel& kernel) { kernel.AddDirectory(directory_); });
  }

  absl::Status Create(const VolumeDraft& draft) override {
    if (draft.bytes > kRoom) return OutOfRange("{} bytes", draft.bytes);
    mounter_.With([&](testing::FakeKernel& kernel) {
      if (!kernel.Exists(PathOf(draft.id))) kernel.AddFile(PathOf(draft.id), draft.bytes);
    });
    return absl::OkStatus();
  }
  absl::Status Copy(const std::vector<CopyDraft>& drafts) override {
    std::vector<ImageCopy> copies;
    for (const CopyDraft& draft : drafts) {
      if (draft.bytes > kRoom) return OutOfRange("{} bytes", draft.bytes);
      copies.push_back({draft.source, PathOf(draft.id), draft.bytes, draft.renew_fs_type});
    }
    return mounter_.Copy(copies);
  }
  absl::Status CheckUnused(const std::string& id) override {
    const auto loops = mounter_.FindLoops(PathOf(id));
    if (absl::IsNotFound(loops.status())) return absl::OkStatus();
    if (!loops.ok()) return loops.status();
    return loops->empty() ? absl::OkStatus() : FailedPrecondition("volume {} is in use", Quote(id));
  }
  absl::Status Delete(const std::string& id) override {
    MOORING_RETURN_IF_ERROR(CheckUnused(id));
    mounter_.With([&](testing::FakeKernel& kernel) { kernel.RemovePath(PathOf(id)); });
    return absl::OkStatus();
  }
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override {
    if (bytes > kRoom) return OutOfRange("{} bytes", bytes);
    mounter_.With([&](testing::FakeKernel& kernel) {
      std::uint64_t& size = kernel.Node(PathOf(id)).bytes;
      size = std::max(size, bytes);
    });
    return absl::OkStatus();
  }
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override {
    return mounter_.With([&](testing::FakeKernel& kernel) -> absl::StatusOr<VolumeLocation> {
      if (!kernel.Exists(PathOf(id))) return NotFound("volume {} has no image", Quote(id));
      return VolumeLocation{.path = PathOf(id), .bytes = kernel.Node(PathOf(id)).bytes};
    });
  }
  absl::StatusOr<BackendCapacity> Capacity() const override {
    return BackendCapacity{.total = kRoom, .available = kRoom, .largest_volume = kRoom};
  }
  absl::StatusOr<std::vector<std::string>> Reconcile() override { return std::vector<std::string>(); }

 private:
  static constexpr std::uint64_t kRoom = std::uint64_t{1} << 44U;
  std::string PathOf(const std::string& id) const { return directory_ + "/" + id + ".img"; }

  const std::string directory_;
  testing::FakeMounter& mounter_;
};

}  // namespace mooring::fuzz

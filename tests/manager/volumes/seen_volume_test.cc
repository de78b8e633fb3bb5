#include "manager/api/existence.h"
#include "tests/manager/volumes/claims_fixture.h"

namespace mooring::manager {
namespace {

class SeenVolumeTest : public ClaimsFixture {
 protected:
  SeenVolumeTest() { AddVolume("db"); }

  // Counts the calls. The first one gives INVALID_ARGUMENT after `change` of the stored volume.
  absl::StatusOr<int> CallsAfter(const std::function<void(Volume&)>& change) {
    int calls = 0;
    return WithSeenVolume(store_, key_, [&](const std::shared_ptr<const VolumeUse>&) -> absl::StatusOr<int> {
      if (++calls > 1) return calls;
      EXPECT_OK(store_.ChangeVolume(key_, [&](Volume& volume) {
        change(volume);
        return true;
      }));
      return InvalidArgument("no such capability");
    });
  }

  VolumeKey key_{"default", "db"};
};

// The plugin refused it, for example, after the claim was taken.
TEST_F(SeenVolumeTest, CallIsNotRepeatedBecauseOfItsOwnClaim) {
  EXPECT_THAT(CallsAfter([](Volume& volume) { volume.in_use = volume.capabilities.front(); }),
              FailsWith(Code::kInvalidArgument, "no such capability"));
}

TEST_F(SeenVolumeTest, CallIsRepeatedAfterAnUpdate) {
  const auto calls = CallsAfter([](Volume& volume) {
    volume.capabilities.push_back({AccessMode::kMultiNodeReaderOnly, AttachmentMode::kFileSystem});
  });
  ASSERT_OK(calls);
  EXPECT_EQ(*calls, 2);
}

TEST_F(SeenVolumeTest, MissingVolumeIsNotFound) {
  key_.id = "none";
  EXPECT_THAT(CallsAfter([](Volume&) {}), FailsWith(Code::kNotFound, "there is no volume"));
}

}  // namespace
}  // namespace mooring::manager

// `mooring release --force`.
#include "manager/claims/claims.h"
#include "tests/manager/volumes/claims_fixture.h"

namespace mooring::manager {
namespace {

class ForceTest : public ClaimsFixture {
 protected:
  ForceTest() {
    AddVolume("db");
    EXPECT_OK(Take(Request("web-1")));
  }

  static bool Nowhere(const Claim&) { return false; }
  static bool Everywhere(const Claim&) { return true; }
};

TEST_F(ForceTest, ForceNeedsDeadAllocations) {
  const VolumeKey db = TheClaim().volume;
  EXPECT_THAT(claims_->Force(db, Nowhere, Soon()), FailsWith(Code::kFailedPrecondition, "'web-1' on 'here' is alive"));
  ASSERT_OK(claims_->AllocationGone("web-1"));
  EXPECT_THAT(claims_->Force(db, Everywhere, Soon()), FailsWith(Code::kFailedPrecondition, "still mounted there"));
  EXPECT_EQ(TheClaim().state, State::kTaken);
  ASSERT_OK(claims_->Force(db, Nowhere, Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ForceTest, ForceFreesClaimThatCannotBeUnpublished) {
  ASSERT_OK(Release("web-1", Unavailable("the plugin is gone")));
  ASSERT_OK(claims_->Force(TheClaim().volume, Nowhere, Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(ForceTest, ForceFreesClaimThatItsControllerRefuses) {
  plugin_->FailAlways("ControllerUnpublishVolume", FailedPrecondition("the pool is not one of this plugin's"));
  EXPECT_THAT(Release("web-1"), FailsWith(Code::kFailedPrecondition, "not one of this plugin's"));
  ASSERT_EQ(TheClaim().state, State::kNodeDetached);
  ASSERT_OK(claims_->Force(TheClaim().volume, Nowhere, Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(Told(), HasSubstr("freed by force, without its controller: ControllerUnpublishVolume of plugin"));
}

TEST_F(ForceTest, ForceFreesClaimWhosePluginIsGoneButNotOneThatIsAway) {
  directory_.SetHealthy("fake.csi", true, false);
  ASSERT_OK(Release("web-1"));
  EXPECT_THAT(claims_->Force(TheClaim().volume, Nowhere, AtOnce()), FailsWith(Code::kUnavailable, "is owed"));
  ASSERT_EQ(TheClaim().state, State::kNodeDetached);
  directory_.Remove("fake.csi");
  ASSERT_OK(claims_->Force(TheClaim().volume, Nowhere, AtOnce()));
  EXPECT_THAT(AllClaims(), IsEmpty());
}

// Such an error may come half-way, so it does not tell that the node has lost the volume.
TEST_F(ForceTest, ErrorThatTellsNothingKeepsTheClaim) {
  plugin_->Fail("ControllerUnpublishVolume", Internal("the storage timed out"));
  EXPECT_FALSE(Release("web-1").ok());
  for (const Code code : {Code::kInternal, Code::kUnknown, Code::kDataLoss}) {
    plugin_->Fail("ControllerUnpublishVolume", absl::Status(code, "the storage timed out"));
    EXPECT_THAT(
        claims_->Force(TheClaim().volume, Nowhere, Soon()),
        FailsWith(code, "the claim of 'web-1' stays, because it is unknown whether 'here' still has the volume"));
    ASSERT_EQ(TheClaim().state, State::kNodeDetached);
    EXPECT_THAT(Take(Request("web-2", kWriter)), FailsWith(Code::kFailedPrecondition, "no free write claim"));
  }
  directory_.Remove("fake.csi");
  ASSERT_OK(claims_->Force(TheClaim().volume, Nowhere, Soon())) << "nobody can be asked any more";
  EXPECT_THAT(AllClaims(), IsEmpty());
}

}  // namespace
}  // namespace mooring::manager

// Claims of a host that was declared lost are free when the caller is told so.
#include "manager/recovery/recovery.h"

#include "tests/fakes/fake_hosts.h"
#include "tests/manager/volumes/claims_fixture.h"

namespace mooring::manager {
namespace {

class RecoveryTest : public ClaimsFixture {
 protected:
  RecoveryTest() {
    for (const char* const host : {"here", "there"}) testing::Join(store_, host);
    AddVolume("db");
    EXPECT_OK(known_.Refresh());
    ClaimRequest request = Request("web-1", kWriter);
    Claims there(store_, directory_, elsewhere_, locks_, events_, queue_, {});
    EXPECT_OK(elsewhere_.Refresh());
    EXPECT_OK(there.Take(request, Soon()));
    testing::Vanish(store_, "there");
    EXPECT_OK(known_.DeclareLost("there"));
  }

  testing::FakeHosts elsewhere_{store_, "there"};
  Hosts known_{store_, events_, queue_, {.self = "here", .version = "1"}};
  Claims claims_here_{store_, directory_, known_, locks_, events_, queue_, {}};
  Recovery recovery_{known_, state_, claims_here_, *volumes_, queue_, {.look_every = hours(1)}};
};

TEST_F(RecoveryTest, ClaimsAreFreeWhenItReturns) {
  ASSERT_OK(recovery_.RecoverNow("there", Soon()));
  EXPECT_THAT(AllClaims(), IsEmpty());
  EXPECT_THAT(AttachedTo(), IsEmpty());
  EXPECT_OK(claims_here_.Take(Request("web-2", kWriter), Soon()));
}

TEST_F(RecoveryTest, WaitsForAnotherHostThatDoesIt) {
  Transaction take;
  take.puts.push_back({.key = RecoveryKey("there"), .value = "third"});
  ASSERT_OK(state_.Commit(take));
  EXPECT_THAT(recovery_.RecoverNow("there", AtOnce()), FailsWith(Code::kUnavailable, "another host recovers it"));
  auto recovered = std::async(std::launch::async, [this] { return recovery_.RecoverNow("there", Soon()); });
  std::this_thread::sleep_for(milliseconds(50));
  Transaction end;
  end.deletes.push_back(RecoveryKey("there"));
  ASSERT_OK(state_.Commit(end));
  EXPECT_OK(recovered.get());
  EXPECT_THAT(AllClaims(), IsEmpty());
}

TEST_F(RecoveryTest, HostThatIsBackKeepsItsClaims) {
  testing::Join(store_, "there");
  EXPECT_THAT(recovery_.RecoverNow("there", Soon()), FailsWith(Code::kFailedPrecondition, "is back"));
  EXPECT_EQ(TheClaim().state, State::kTaken);
}

}  // namespace
}  // namespace mooring::manager

// Relays of two hosts over a real etcd.
#include <algorithm>

#include "manager/hosts/event_relay.h"
#include "manager/state/keys.h"
#include "tests/manager/etcd/etcd_store.h"
#include "tests/manager/state/state_fixture.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

using testing::WaitUntil;

class EventRelayEtcdTest : public ::testing::Test {
 protected:
  struct Member {
    Member(const EtcdSettings& shared, const std::string& host) : events(host) {
      EtcdSettings settings = shared;
      settings.host = host;
      auto opened = OpenEtcdState(settings);
      EXPECT_OK(opened);
      state = *std::move(opened);
      relay = std::make_unique<EventRelay>(*state, events, work, EventRelay::Settings{.host = host, .run = "run-1"});
    }
    ~Member() {
      events.Close();
      state->EndWatches();
    }
    bool Has(const std::string& host, const std::string& text) {
      const auto is_it = [&](const Event& event) { return event.host == host && event.text == text; };
      return WaitUntil(
          [&] {
            const auto all = events.Next(1, std::chrono::steady_clock::now());
            return all.ok() && std::any_of(all->begin(), all->end(), is_it);
          },
          seconds(20));
    }
    Events events;
    std::unique_ptr<State> state;
    WorkQueue work;
    std::unique_ptr<EventRelay> relay;
  };

  const EtcdSettings settings_ = NewSettings(SharedCluster());
};

TEST_F(EventRelayEtcdTest, EventsReachTheOtherHostAndEndWithTheLease) {
  Member a(settings_, "a");
  {
    Member b(settings_, "b");
    b.events.Add({.kind = "health", .text = "from b"});
    a.events.Add({.kind = "health", .text = "from a"});
    EXPECT_TRUE(a.Has("b", "from b"));
    EXPECT_TRUE(b.Has("a", "from a"));
    EXPECT_THAT(a.state->List(EventsPrefix("b"))->values, SizeIs(1));
  }
  Member again(settings_, "b");
  EXPECT_THAT(a.state->List(EventsPrefix("b"))->values, IsEmpty()) << "the lease of before was ended";
  EXPECT_TRUE(again.Has("a", "from a"));
}

TEST_F(EventRelayEtcdTest, GoesOnAfterTheLeaseWasLost) {
  Member a(settings_, "a"), b(settings_, "b");
  const std::int64_t before = b.state->lease().Number();
  ASSERT_EQ(SharedCluster().Control({"del", settings_.prefix + LiveKey("b")}), 0);
  b.events.Add({.kind = "health", .text = "after"});
  EXPECT_TRUE(a.Has("b", "after"));
  EXPECT_GT(b.state->lease().Number(), before);
}

}  // namespace
}  // namespace mooring::manager

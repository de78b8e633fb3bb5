// The end of instances that are no longer used.
#include "manager/supervisor/terminator.h"

#include "tests/fakes/broken_state.h"
#include "tests/fakes/fake_csi_plugin.h"
#include "tests/fakes/fake_launcher.h"
#include "tests/manager/prelude.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {
namespace {

// The endpoint is declared again while the registry cannot be stored, so that the former end goes on.
TEST(TerminatorTest, SparesASuccessorAtTheSameEndpoint) {
  testing::FakeSockets sockets;
  testing::FakeLauncher launcher(sockets);
  testing::BrokenState state;
  Events events;
  WorkQueue work;
  const auto plugins = PluginSet::Open(state, "host", events, sockets.connector(), work).value();
  SupervisorSettings settings;
  settings.end_again = milliseconds(1);
  const SupervisorDependencies deps{*plugins, events, sockets.connector(), work, launcher, launcher, settings, nullptr};
  PluginRecord endpoint;
  endpoint.name = "p";
  endpoint.endpoint = "/run/p/csi.sock";
  state.is_full = false;
  auto first = std::make_unique<SupervisedInstance>(endpoint);
  ASSERT_OK(first->Register(*plugins, {.name = "p", .version = "1", .types = {PluginType::kNode}}, "/mounts"));

  state.is_full = true;
  Terminator terminator(deps, "p", [] {});
  terminator.Begin(std::move(first));
  ASSERT_TRUE(testing::WaitUntil([&] { return !terminator.FailedInstance().empty(); }, seconds(20)));
  const SupervisedInstance second(endpoint);
  EXPECT_TRUE(second.TakeOver(*plugins));
  state.is_full = false;
  EXPECT_TRUE(testing::WaitUntil([&] { return terminator.IsIdle(); }, seconds(20)));
  const auto status = plugins->Find("p");
  ASSERT_OK(status);
  EXPECT_EQ(status->instances.front().instance.instance_id, second.id());
  EXPECT_OK(second.Deregister(*plugins));
  EXPECT_THAT(plugins->List(), IsEmpty());
}

}  // namespace
}  // namespace mooring::manager

// Hostile clients of the sockets do not make the process large, and it still serves.
#include "tests/support/hostile_load.h"

#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

constexpr std::size_t kMostResident = 64 * 1024, kMostAtAll = 192 * 1024;  // KiB

class HostileLoadRpc : public RpcTest {
 protected:
  HostileLoadRpc() {
    AddFlags(
        {"--metrics-listen", "unix:" + metrics(), "--kubelet-registration-dir", MakeDirectories("plugins_registry")});
  }
  std::string metrics() const { return dir() / "metrics.sock"; }

  void ExpectSmall() {
    EXPECT_TRUE(
        Eventually([&] { return MemoryOf(plugin().pid()).resident_kib < kMostResident; }, std::chrono::seconds(20)))
        << MemoryOf(plugin().pid()).resident_kib << " KiB are resident";
    EXPECT_LT(MemoryOf(plugin().pid()).peak_kib, kMostAtAll);
    EXPECT_OK(driver().Send(ProbeRequest()));
  }
};

TEST_F(HostileLoadRpc, CsiSocketFreesItsMemory) {
  FloodInEveryWay(plugin().options().socket);
  ExpectSmall();
  const auto request = CreateRequest("v", Mount(), 0, {{"long", std::string(3 << 20, 'x')}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 30; ++i) {
    threads.emplace_back([&] {
      Driver other(plugin().options().socket);
      other.Connect();
      for (int j = 0; j < 6; ++j) {
        // The server may close the connection or the stream while the client still sends.
        EXPECT_THAT(other.Send(request),
                    AnyOf(FailsWith(Code::kResourceExhausted, ""), FailsWith(Code::kUnavailable, "")));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectSmall();
}

TEST_F(HostileLoadRpc, RegistrationAndMetricsSocketsFreeTheirMemory) {
  const std::string registration = dir() / "plugins_registry/mooring.csi-reg.sock";
  ASSERT_TRUE(Eventually([&] { return fs::exists(registration); }));
  FloodInEveryWay(registration);
  FloodInEveryWay(metrics());
  ExpectSmall();
}

}  // namespace
}  // namespace mooring::testing

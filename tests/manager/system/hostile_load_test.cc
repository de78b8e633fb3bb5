// Hostile input on the sockets of the manager leaves its process small and serving.
#include "tests/support/hostile_load.h"

#include <httplib.h>

#include "tests/manager/system/manager_test.h"

namespace mooring::testing {
namespace {

constexpr std::size_t kMostResident = 64 * 1024, kMostAtAll = 192 * 1024;  // KiB

class HostileLoad : public ManagerTest {
 protected:
  void SetUp() override {
    process().options().flags = {"--docker-socket", docker(), "--metrics-listen", "unix:" + metrics()};
    Start();
  }
  std::string docker() const { return dir() / "docker.sock"; }
  std::string metrics() const { return dir() / "metrics.sock"; }

  void ExpectSmall() {
    EXPECT_TRUE(Eventually([&] { return MemoryOf(process().pid()).resident_kib < kMostResident; }, seconds(20)))
        << MemoryOf(process().pid()).resident_kib << " KiB are resident";
    EXPECT_LT(MemoryOf(process().pid()).peak_kib, kMostAtAll);
    EXPECT_OK(client().Ask(&v1::Manager::Stub::GetManagerInfo, v1::GetManagerInfoRequest()));
  }
};

TEST_F(HostileLoad, DockerSocketFreesMemory) {
  FloodInEveryWay(docker());
  ExpectSmall();
  std::vector<std::thread> threads;
  for (int i = 0; i < 30; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 6; ++j) {
        httplib::Client client(docker());
        client.set_address_family(AF_UNIX);
        client.Post("/VolumeDriver.Create", std::string(1000 * 1000, '['), "application/json");
        client.Post("/VolumeDriver.Create", "{\"Name\":" + std::string(60 * 1000, '['), "application/json");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectSmall();
  httplib::Client client(docker());
  client.set_address_family(AF_UNIX);
  EXPECT_TRUE(client.Post("/VolumeDriver.List", "{}", "application/json"));
}

TEST_F(HostileLoad, ApiSocketFreesMemory) {
  FloodInEveryWay(process().options().socket);
  ExpectSmall();
  v1::CreateVolumeRequest request;
  *request.mutable_volume() = VolumeOf("db", kOurPlugin);
  (*request.mutable_volume()->mutable_parameters())["long"] = std::string(3 << 20, 'x');
  std::vector<std::thread> threads;
  for (int i = 0; i < 30; ++i) {
    threads.emplace_back([&] {
      ManagerClient other(process().options().socket);
      for (int j = 0; j < 6; ++j) {
        // The server may close the connection before the request is complete.
        EXPECT_THAT(other.Ask(&v1::Manager::Stub::CreateVolume, request),
                    ::testing::AnyOf(FailsWith(Code::kResourceExhausted, ""), FailsWith(Code::kUnavailable, "")));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectSmall();
  (*request.mutable_volume()->mutable_parameters())["long"] = std::string(200 << 10, 'x');
  const auto smaller = client().Ask(&v1::Manager::Stub::CreateVolume, request);
  EXPECT_FALSE(absl::IsResourceExhausted(smaller.status())) << "there is no such plugin, and that is what it says";
}

TEST_F(HostileLoad, MetricsSocketFreesMemory) {
  FloodInEveryWay(metrics());
  ExpectSmall();
}

}  // namespace
}  // namespace mooring::testing

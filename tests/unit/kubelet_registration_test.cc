// The plugin's registration, against a plugin manager that does as kubelet's.
#include "plugin/kubelet_registration.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/socket_path.h"
#include "base/unique_fd.h"
#include "csi.grpc.pb.h"
#include "pluginregistration.grpc.pb.h"
#include "tests/fakes/fake_plugin_manager.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

bool Eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (!holds() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(2ms);
  return holds();
}

// The CSI services at the endpoint: NodeGetInfo, which fails as often as it is told to.
class Node final : public csi::v1::Node::Service {
 public:
  explicit Node(const std::string& path) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(GrpcTarget(path), grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Node() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status NodeGetInfo(grpc::ServerContext*, const csi::v1::NodeGetInfoRequest*,
                           csi::v1::NodeGetInfoResponse* response) override {
    if (failures-- > 0) return {grpc::StatusCode::UNAVAILABLE, "not now"};
    response->set_node_id("node-1");
    return grpc::Status::OK;
  }

  std::atomic<int> failures{0};

 private:
  std::unique_ptr<grpc::Server> server_;
};

class KubeletRegistrationTest : public ::testing::Test {
 protected:
  KubeletRegistrationTest() {
    ::umask(022);
    fs::create_directory(registry_);
  }

  std::unique_ptr<KubeletRegistration> Registration() {
    return std::make_unique<KubeletRegistration>(KubeletRegistration::Settings{.directory = registry_,
                                                                               .driver_name = "disk.example",
                                                                               .endpoint = endpoint_,
                                                                               .first_wait = 10ms,
                                                                               .longest_wait = 80ms,
                                                                               .look_after = 20ms});
  }

  bool IsRegistered() { return kubelet_.Find("disk.example").has_value(); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(registry_)) names.push_back(entry.path().filename());
    return names;
  }
  static UniqueFd Bound(const std::string& path) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    return fd;
  }

  TempDir dir_;
  const std::string registry_ = dir_ / "plugins_registry", endpoint_ = dir_ / "csi.sock";
  const std::string path_ = registry_ + "/disk.example-reg.sock", hidden_ = registry_ + "/.disk.example-reg.sock";
  Node node_{endpoint_};
  FakePluginManager kubelet_{registry_};
};

TEST_F(KubeletRegistrationTest, KubeletRegistersWhatIsAnnounced) {
  kubelet_.Start();
  const auto registration = Registration();
  ASSERT_OK(registration->CheckSockets());
  EXPECT_THAT(Names(), IsEmpty());
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return IsRegistered(); }));
  EXPECT_EQ(kubelet_.Find("disk.example")->endpoint, endpoint_);
  EXPECT_EQ(kubelet_.Find("disk.example")->node_id, "node-1");
  EXPECT_THAT(Names(), ElementsAre("disk.example-reg.sock"));
  std::this_thread::sleep_for(100ms);
  EXPECT_THAT(kubelet_.History(), ElementsAre("registered disk.example")) << "once is enough";
}

// Newer kubelets ask it again and again whether the plugin is there.
TEST_F(KubeletRegistrationTest, GetInfoSaysWhatKubeletAcceptsAtAnyTime) {
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return fs::exists(path_); }));
  const auto stub = pluginregistration::Registration::NewStub(
      grpc::CreateChannel(GrpcTarget(path_), grpc::InsecureChannelCredentials()));
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    pluginregistration::PluginInfo info;
    ASSERT_TRUE(stub->GetInfo(&context, {}, &info).ok());
    EXPECT_EQ(info.type(), "CSIPlugin");
    EXPECT_EQ(info.name(), "disk.example");
    EXPECT_EQ(info.endpoint(), endpoint_);
    EXPECT_THAT(info.supported_versions(), ElementsAre("1.0.0"));
  }
}

TEST_F(KubeletRegistrationTest, OnlyItsOwnerCanConnect) {
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return fs::exists(path_); }));
  struct stat status = {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0022U, 0U);
}

TEST_F(KubeletRegistrationTest, WhatWasRefusedIsOfferedAgain) {
  node_.failures = 2;
  kubelet_.Start();
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return IsRegistered(); }));
  EXPECT_THAT(kubelet_.History(),
              ElementsAre("refused disk.example: not now", "forgot disk.example", "refused disk.example: not now",
                          "forgot disk.example", "registered disk.example"));
}

// 50, 100, 200, 400, 400 ms.
TEST_F(KubeletRegistrationTest, TheWaitsGrow) {
  node_.failures = 1'000'000;
  kubelet_.Start();
  KubeletRegistration registration({.directory = registry_,
                                    .driver_name = "disk.example",
                                    .endpoint = endpoint_,
                                    .first_wait = 50ms,
                                    .longest_wait = 400ms});
  const auto start = std::chrono::steady_clock::now();
  registration.Announce();
  ASSERT_TRUE(Eventually([&] { return kubelet_.History().size() >= 11; })) << "six refusals, five forgotten between";
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms + 100ms + 200ms + 2 * 400ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s) << "and no longer than the longest";
}

TEST_F(KubeletRegistrationTest, WhatIsWithdrawnKubeletForgets) {
  kubelet_.Start();
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return IsRegistered(); }));
  registration->Withdraw();
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_TRUE(Eventually([&] { return !IsRegistered(); }));
  registration->Announce();
  EXPECT_THAT(Names(), IsEmpty()) << "for good";
}

TEST_F(KubeletRegistrationTest, WithdrawnBeforeItWasAnnouncedNothingIsMade) {
  const auto registration = Registration();
  registration->Withdraw();
  registration->Announce();
  std::this_thread::sleep_for(50ms);
  EXPECT_THAT(Names(), IsEmpty());
}

// Between a removal and a new file kubelet would forget the plugin, and pods that start meanwhile would fail.
TEST_F(KubeletRegistrationTest, TheSocketOfAKilledPredecessorIsReplacedInOneStep) {
  Bound(path_).reset();
  Bound(hidden_).reset();
  const UniqueFd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(::inotify_add_watch(events.get(), registry_.c_str(), IN_CREATE | IN_DELETE | IN_MOVED_TO), 0);
  const auto registration = Registration();
  ASSERT_OK(registration->CheckSockets());
  EXPECT_TRUE(fs::exists(path_));
  registration->Announce();
  kubelet_.Start();
  ASSERT_TRUE(Eventually([&] { return IsRegistered(); }));
  alignas(inotify_event) std::array<char, 4096> buffer = {};
  std::vector<std::string> seen;
  const ssize_t bytes = ::read(events.get(), buffer.data(), buffer.size());
  for (ssize_t at = 0; at < bytes;) {
    const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
    if (event->name[0] != '.') seen.push_back(std::string(event->name) + ((event->mask & IN_MOVED_TO) != 0 ? "" : "!"));
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  EXPECT_THAT(seen, ElementsAre("disk.example-reg.sock"));
}

TEST_F(KubeletRegistrationTest, WhereAnotherServesOrThatIsNoSocketIsRefused) {
  const auto registration = Registration();
  for (const std::string& path : {path_, hidden_}) {
    const UniqueFd other = Bound(path);
    EXPECT_THAT(registration->CheckSockets(), FailsWith(absl::StatusCode::kFailedPrecondition, "served by another"));
    fs::remove(path);
    std::ofstream(path) << "data";
    EXPECT_THAT(registration->CheckSockets(), FailsWith(absl::StatusCode::kFailedPrecondition, "no socket"));
    fs::remove(path);
  }
  fs::remove(registry_);
  EXPECT_THAT(registration->CheckSockets(), FailsWith(absl::StatusCode::kNotFound, registry_));
}

TEST_F(KubeletRegistrationTest, TheSocketOfASuccessorIsLeftToIt) {
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return fs::exists(path_); }));
  const UniqueFd successor = Bound(dir_ / "other.sock");
  fs::rename(dir_ / "other.sock", path_);
  std::this_thread::sleep_for(100ms);
  registration->Withdraw();
  EXPECT_TRUE(fs::is_socket(path_));
}

TEST_F(KubeletRegistrationTest, ASocketThatSomebodyRemovedIsMadeAgain) {
  kubelet_.Start();
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return IsRegistered(); }));
  fs::remove(path_);
  EXPECT_TRUE(Eventually([&] {
    const auto history = kubelet_.History();
    return std::count(history.begin(), history.end(), "registered disk.example") == 2;
  }));
}

TEST_F(KubeletRegistrationTest, ADirectoryThatIsAwayIsWaitedFor) {
  const auto registration = Registration();
  fs::remove(registry_);
  registration->Announce();
  std::this_thread::sleep_for(50ms);
  kubelet_.Start();
  EXPECT_TRUE(Eventually([&] { return IsRegistered(); }));
}

TEST_F(KubeletRegistrationTest, AKubeletThatStartsLaterFindsIt) {
  const auto registration = Registration();
  registration->Announce();
  for (int i = 0; i < 3; ++i) {
    kubelet_.Start();
    EXPECT_TRUE(Eventually([&] { return IsRegistered(); }));
    kubelet_.Stop();
  }
}

}  // namespace
}  // namespace mooring::testing

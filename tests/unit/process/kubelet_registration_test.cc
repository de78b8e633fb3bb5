// The registration of the plugin, with a plugin manager that acts like kubelet's.
#include "plugin/kubelet/kubelet_registration.h"

#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file/directory.h"
#include "base/file/unique_fd.h"
#include "base/socket_path.h"
#include "csi.grpc.pb.h"
#include "pluginregistration.grpc.pb.h"
#include "tests/fakes/fake_plugin_manager.h"
#include "tests/support/wait_until.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

bool Eventually(const std::function<bool()>& holds) { return WaitUntil(holds, 10s); }

// The CSI services at the endpoint. NodeGetInfo fails as often as the test says.
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
  KubeletRegistrationTest() { fs::create_directory(registry_); }

  std::unique_ptr<KubeletRegistration> Registration() {
    auto registration =
        std::make_unique<KubeletRegistration>(KubeletRegistration::Settings{.directory = registry_,
                                                                            .driver_name = "disk.example",
                                                                            .endpoint = endpoint_,
                                                                            .first_wait = 10ms,
                                                                            .longest_wait = 80ms,
                                                                            .check_every = 20ms});
    EXPECT_OK(registration->Start());
    return registration;
  }

  bool IsRegistered() { return kubelet_.Find("disk.example").has_value(); }
  std::vector<std::string> Names() const { return *EntriesOf(registry_); }
  static sockaddr_un Address(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
  }
  static UniqueFd Bound(const std::string& path) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = Address(path);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    return fd;
  }

  // Whether the path leads to `listener`.
  static absl::Status Connects(const std::string& path, const UniqueFd& listener) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = Address(path);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return absl::ErrnoToStatus(errno, "connect");
    }
    pollfd called = {listener.get(), POLLIN, 0};
    return ::poll(&called, 1, 0) == 1 ? absl::OkStatus() : absl::NotFoundError("it reaches another");
  }
  static absl::Status AsNobody(const std::function<absl::Status()>& work) {
    constexpr id_t kNobody = 65534;
    EXPECT_EQ(::setegid(kNobody), 0);
    EXPECT_EQ(::seteuid(kNobody), 0);
    absl::Status outcome = work();
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::setegid(0), 0);
    return outcome;
  }

  TempDir dir_;
  const std::string registry_ = dir_ / "plugins_registry", endpoint_ = dir_ / "csi.sock";
  const std::string path_ = registry_ + "/disk.example-reg.sock", hidden_ = registry_ + "/.disk.example-reg.sock";
  Node node_{endpoint_};
  FakePluginManager kubelet_{registry_};
};

TEST_F(KubeletRegistrationTest, KubeletRegistersAnAnnouncedPlugin) {
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

// A thread has the name of the thread that created it.
int ThreadsNamed(const std::string& name) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(entry.path() / "comm"), comm);
    count += comm == name ? 1 : 0;
  }
  return count;
}

// The thread that announces the plugin could not report that no further thread can start.
TEST_F(KubeletRegistrationTest, ItsThreadExistsBeforeTheAnnouncement) {
  std::array<char, 16> before = {};
  ASSERT_EQ(::prctl(PR_GET_NAME, before.data()), 0);
  ASSERT_EQ(::prctl(PR_SET_NAME, "starting"), 0);
  const auto registration = Registration();
  ASSERT_EQ(::prctl(PR_SET_NAME, "announcing"), 0);
  EXPECT_EQ(ThreadsNamed("starting"), 1);
  registration->Announce();
  EXPECT_TRUE(Eventually([&] { return fs::exists(path_); }));
  EXPECT_EQ(ThreadsNamed("announcing"), 1) << "this one";
  ASSERT_EQ(::prctl(PR_SET_NAME, before.data()), 0);
}

TEST_F(KubeletRegistrationTest, RunningOutOfDescriptorsIsNotReportedAsAPermissionProblem) {
  const auto registration = Registration();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status refused = registration->CheckSockets();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(refused, FailsWith(StatusCode::kResourceExhausted, "Too many open files"));
  EXPECT_THAT(std::string(refused.message()), ::testing::Not(HasSubstr("let that user")));
}

// Kubelet calls GetInfo each time it finds the socket.
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

TEST_F(KubeletRegistrationTest, ARefusedRegistrationIsRetried) {
  node_.failures = 2;
  kubelet_.Start();
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return kubelet_.History().size() >= 5; }));  // written down last
  EXPECT_THAT(kubelet_.History(),
              ElementsAre("refused disk.example: not now", "forgot disk.example", "refused disk.example: not now",
                          "forgot disk.example", "registered disk.example"));
}

// 50, 100, 200, 400, 400 ms.
TEST_F(KubeletRegistrationTest, ThePauseBetweenRetriesGrows) {
  node_.failures = 1'000'000;
  kubelet_.Start();
  KubeletRegistration registration({.directory = registry_,
                                    .driver_name = "disk.example",
                                    .endpoint = endpoint_,
                                    .first_wait = 50ms,
                                    .longest_wait = 400ms});
  ASSERT_OK(registration.Start());
  const auto start = std::chrono::steady_clock::now();
  registration.Announce();
  ASSERT_TRUE(Eventually([&] { return kubelet_.History().size() >= 11; })) << "six refusals, five forgotten between";
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms + 100ms + 200ms + 2 * 400ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s) << "and no longer than the longest";
}

TEST_F(KubeletRegistrationTest, KubeletForgetsAWithdrawnPlugin) {
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

TEST_F(KubeletRegistrationTest, WithdrawingBeforeTheAnnouncementCreatesNothing) {
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

TEST_F(KubeletRegistrationTest, RefusesTheSocketOfAnotherServerAndOtherFiles) {
  const auto registration = Registration();
  for (const std::string& path : {path_, hidden_}) {
    const UniqueFd other = Bound(path);
    EXPECT_THAT(
        registration->CheckSockets(),
        FailsWith(StatusCode::kFailedPrecondition, "served by another process: another registrar serves this driver"));
    fs::remove(path);
    std::ofstream(path) << "data";
    EXPECT_THAT(registration->CheckSockets(), FailsWith(StatusCode::kFailedPrecondition, "is not a socket"));
    fs::remove(path);
  }
  fs::remove(registry_);
  EXPECT_THAT(registration->CheckSockets(), FailsWith(StatusCode::kNotFound, registry_));
}

TEST_F(KubeletRegistrationTest, KeepsTheSocketOfASuccessor) {
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return fs::exists(path_); }));
  const UniqueFd successor = Bound(dir_ / "other.sock");
  fs::rename(dir_ / "other.sock", path_);
  std::this_thread::sleep_for(100ms);
  registration->Withdraw();
  EXPECT_TRUE(fs::is_socket(path_));
}

// A registrar in the same pod first asks the plugin for its name, so it binds after the check of the plugin.
TEST_F(KubeletRegistrationTest, ARegistrarThatCameBeforeThePluginWasReadyKeepsItsPlace) {
  for (const bool was_killed : {false, true}) {
    if (was_killed) Bound(path_).reset();
    const auto registration = Registration();
    ASSERT_OK(registration->CheckSockets());
    std::this_thread::sleep_for(20ms);  // file times are coarse, and the inode number may be the same
    fs::remove(path_);
    const UniqueFd registrar = Bound(path_);
    ::testing::internal::CaptureStderr();
    registration->Announce();
    std::this_thread::sleep_for(300ms);
    EXPECT_OK(Connects(path_, registrar)) << was_killed;
    registration->Withdraw();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("another registrar serves this driver"));
    EXPECT_THAT(Names(), ElementsAre("disk.example-reg.sock"));
    fs::remove(path_);
  }
}

TEST_F(KubeletRegistrationTest, ALaterRegistrarIsLoggedOnce) {
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return fs::exists(path_); }));
  ::testing::internal::CaptureStderr();
  const UniqueFd registrar = Bound(dir_ / "other.sock");
  fs::rename(dir_ / "other.sock", path_);
  std::this_thread::sleep_for(300ms);
  registration->Withdraw();
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::size_t told = log.find("replaced by another process");
  ASSERT_NE(told, std::string::npos) << log;
  EXPECT_EQ(log.find("replaced by another process", told + 1), std::string::npos) << log;
  EXPECT_TRUE(fs::is_socket(path_));
}

// A successor's socket may have the inode number of ours, which is gone.
TEST_F(KubeletRegistrationTest, WithdrawingTwiceRemovesOnce) {
  auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return fs::exists(path_); }));
  fs::create_hard_link(path_, dir_ / "same number");
  registration->Withdraw();
  EXPECT_THAT(Names(), IsEmpty());
  fs::rename(dir_ / "same number", path_);
  registration->Withdraw();
  registration.reset();
  EXPECT_THAT(Names(), ElementsAre("disk.example-reg.sock"));
}

TEST_F(KubeletRegistrationTest, RecognisesItsSocketAfterAChangeOfItsMode) {
  const auto registration = Registration();
  registration->Announce();
  ASSERT_TRUE(Eventually([&] { return fs::exists(path_); }));
  std::this_thread::sleep_for(20ms);
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  registration->Withdraw();
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(KubeletRegistrationTest, NamesADirectoryWithoutWritePermission) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make directories and sockets that are somebody else's";
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0711), 0);
  ASSERT_EQ(::chmod(registry_.c_str(), 0755), 0);
  const auto registration = Registration();
  const absl::Status refused = AsNobody([&] { return registration->CheckSockets(); });
  for (const std::string& piece : {registry_, std::string("Permission denied"), std::string("user 65534:65534")}) {
    EXPECT_THAT(refused, FailsWith(StatusCode::kFailedPrecondition, piece));
  }
  Bound(path_).reset();
  ASSERT_EQ(::chmod(path_.c_str(), 0700), 0);
  const absl::Status not_asked = AsNobody([&] { return registration->CheckSockets(); });
  for (const std::string& piece : {path_, std::string("Permission denied"), std::string("it belongs to user 0")}) {
    EXPECT_THAT(not_asked, FailsWith(StatusCode::kFailedPrecondition, piece));
  }
}

TEST_F(KubeletRegistrationTest, CreatesARemovedSocketAgain) {
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

TEST_F(KubeletRegistrationTest, WaitsForAMissingDirectory) {
  const auto registration = Registration();
  fs::remove(registry_);
  registration->Announce();
  std::this_thread::sleep_for(50ms);
  kubelet_.Start();
  EXPECT_TRUE(Eventually([&] { return IsRegistered(); }));
}

TEST_F(KubeletRegistrationTest, AKubeletThatStartsLaterFindsThePlugin) {
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

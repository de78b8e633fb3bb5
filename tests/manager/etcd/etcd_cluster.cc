#include "tests/manager/etcd/etcd_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

namespace mooring::testing {
namespace {

int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool bound = ::bind(socket, any, size) == 0 && ::getsockname(socket, any, &size) == 0;
  ::close(socket);
  EXPECT_TRUE(bound);
  return ntohs(address.sin_port);
}

pid_t Run(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // so that nothing is left when a test aborts
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::setenv("ETCDCTL_API", "3", 1);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

std::unique_ptr<EtcdCluster> shared_cluster;

class EndCluster final : public ::testing::Environment {
 public:
  void TearDown() override { shared_cluster.reset(); }
};
[[maybe_unused]] const auto* const end_cluster = ::testing::AddGlobalTestEnvironment(new EndCluster);

}  // namespace

EtcdCluster::EtcdCluster(std::vector<std::string> flags) : flags_(std::move(flags)) {
  for (std::size_t i = 0; i < kMembers; ++i) {
    client_ports_[i] = FreePort();
    peer_ports_[i] = FreePort();
  }
  for (std::size_t i = 0; i < kMembers; ++i) Start(i);
  int healthy = 1;
  for (int tries = 0; tries < 100 && healthy != 0; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    healthy = Control({"endpoint", "health"});
  }
  EXPECT_EQ(healthy, 0) << "the etcd cluster does not start";
}

EtcdCluster::~EtcdCluster() {
  for (std::size_t i = 0; i < kMembers; ++i) Kill(i);
}

std::string EtcdCluster::endpoints() const {
  return fmt::format("etcd://127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}", client_ports_[0], client_ports_[1],
                     client_ports_[2]);
}

std::string EtcdCluster::PeerUrl(std::size_t member) const {
  return fmt::format("http://127.0.0.1:{}", peer_ports_[member]);
}

void EtcdCluster::Start(std::size_t member) {
  const std::string name = fmt::format("m{}", member);
  const std::string client = fmt::format("http://127.0.0.1:{}", client_ports_[member]);
  std::vector<std::string> command = {"etcd",
                                      "--name",
                                      name,
                                      "--data-dir",
                                      directory_ / name,
                                      "--unsafe-no-fsync",
                                      "--log-level",
                                      "error",
                                      "--listen-client-urls",
                                      client,
                                      "--advertise-client-urls",
                                      client,
                                      "--listen-peer-urls",
                                      PeerUrl(member),
                                      "--initial-advertise-peer-urls",
                                      PeerUrl(member),
                                      "--initial-cluster",
                                      fmt::format("m0={},m1={},m2={}", PeerUrl(0), PeerUrl(1), PeerUrl(2))};
  command.insert(command.end(), flags_.begin(), flags_.end());
  pids_[member] = Run(command, directory_ / (name + ".log"));
}

void EtcdCluster::Kill(std::size_t member) {
  if (pids_[member] == 0) return;
  ::kill(pids_[member], SIGKILL);
  ::waitpid(pids_[member], nullptr, 0);
  pids_[member] = 0;
}

void EtcdCluster::Signal(std::size_t member, int signal) { ::kill(pids_[member], signal); }

int EtcdCluster::Control(const std::vector<std::string>& command) {
  std::vector<std::string> all = {"etcdctl", "--endpoints", endpoints().substr(7)};
  all.insert(all.end(), command.begin(), command.end());
  int status = 0;
  ::waitpid(Run(all, directory_ / "etcdctl.log"), &status, 0);
  return status;
}

EtcdCluster& SharedCluster() {
  if (!shared_cluster) shared_cluster = std::make_unique<EtcdCluster>();
  return *shared_cluster;
}

}  // namespace mooring::testing

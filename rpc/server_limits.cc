#include "rpc/server_limits.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/exception.h"
#include "base/file/unique_fd.h"
#include "base/status.h"

namespace mooring {
namespace {

constexpr int kIdleThreads = 4;
constexpr std::size_t kMostBuffered = std::size_t{64} * 1024 * 1024;

// gRPC starts ten, and the other parts of a server two or three.
constexpr int kThreadsOfGrpc = 16;

constexpr int kFilesOfGrpc = 16;  // before its first connection

absl::Status CheckFiles() {
  std::vector<UniqueFd> files;
  for (int i = 0; i < kFilesOfGrpc; ++i) {
    files.emplace_back(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!files.back().ok()) return ErrnoStatus(errno, "open the files of gRPC (ulimit -n, LimitNOFILE=)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckThreadsForGrpc() {
  MOORING_RETURN_IF_ERROR(CheckFiles());
  std::mutex all_started;
  std::vector<std::thread> threads;
  absl::Status status;
  {
    const std::lock_guard<std::mutex> lock(all_started);
    try {
      for (int i = 0; i < kThreadsOfGrpc; ++i) {
        threads.emplace_back([&all_started] { const std::lock_guard<std::mutex> wait(all_started); });
      }
    } catch (const std::exception& error) {
      status = ExceptionStatus(error);
    }
  }
  for (std::thread& thread : threads) thread.join();
  return Annotate(status, "start the threads of gRPC");
}

void LimitServer(grpc::ServerBuilder& builder, const std::string& name, int most_calls) {
  grpc::ResourceQuota quota(name);
  quota.SetMaxThreads(most_calls);
  quota.Resize(kMostBuffered);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kLargestRequest);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, most_calls);
  // A thread that has served a call waits for the next one. With the defaults it ends if two others wait.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, kIdleThreads);
}

}  // namespace mooring

#include "rpc/server_limits.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <cstddef>

namespace mooring {
namespace {

constexpr int kIdleThreads = 4;
constexpr std::size_t kMostBuffered = std::size_t{64} * 1024 * 1024;

}  // namespace

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

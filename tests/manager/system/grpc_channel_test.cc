// A CsiChannel over a real socket.
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>

#include "base/socket_path.h"
#include "base/status.h"
#include "csi.grpc.pb.h"
#include "manager/csi/connectors.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

// Answers as the test sets; NodeUnstageVolume hangs until its caller is gone.
class TinyNode final : public csi::v1::Node::Service {
 public:
  grpc::Status NodeGetInfo(grpc::ServerContext*, const csi::v1::NodeGetInfoRequest*,
                           csi::v1::NodeGetInfoResponse* response) override {
    response->set_node_id(node_id);
    return outcome;
  }
  grpc::Status NodeUnstageVolume(grpc::ServerContext* context, const csi::v1::NodeUnstageVolumeRequest*,
                                 csi::v1::NodeUnstageVolumeResponse*) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++hanging_;
      changed_.notify_all();
    }
    while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    return grpc::Status::CANCELLED;
  }
  grpc::Status NodeStageVolume(grpc::ServerContext*, const csi::v1::NodeStageVolumeRequest*,
                               csi::v1::NodeStageVolumeResponse*) override {
    return {grpc::StatusCode::INTERNAL,
            "cannot mount with open sesame by password=hunter2, nor with hunter2 to read from"};
  }
  bool WaitUntilHanging() {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, seconds(20), [this] { return hanging_ > 0; });
  }

  std::string node_id = "node-1";
  grpc::Status outcome;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int hanging_ = 0;
};

class GrpcChannelTest : public ::testing::Test {
 protected:
  void Serve() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(GrpcTarget(socket_), grpc::InsecureServerCredentials());
    builder.RegisterService(&node_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void End() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  absl::StatusOr<std::string> NodeId(Clock::time_point until = Soon()) {
    const auto info = Call(*channel_, csi::v1::NodeGetInfoRequest(), until);
    if (!info.ok()) return info.status();
    return info->node_id();
  }
  absl::Status Hang(Clock::time_point until) {
    return Call(*channel_, csi::v1::NodeUnstageVolumeRequest(), until).status();
  }

  TempDir dir_;
  const std::string socket_ = dir_ / "csi sock";  // gRPC needs the space encoded
  TinyNode node_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<CsiChannel> channel_ = ConnectCsi(socket_);
};

TEST_F(GrpcChannelTest, ReturnsCodeAndMessageOfPlugin) {
  Serve();
  EXPECT_EQ(NodeId().value(), "node-1");
  node_.outcome = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "it is 'busy'");
  EXPECT_THAT(NodeId(), FailsWith(Code::kFailedPrecondition, "it is 'busy'"));
  node_.outcome = grpc::Status(grpc::StatusCode::INTERNAL, "mount failed: exit status 32\n\nOutput: no such device\n");
  EXPECT_THAT(NodeId(), FailsWith(Code::kInternal, "mount failed: exit status 32; Output: no such device"));
  csi::v1::ProbeRequest probe;
  EXPECT_THAT(Call(*channel_, probe, Soon()), FailsWith(Code::kUnimplemented, ""));
}

TEST_F(GrpcChannelTest, RedactsSecretsButNotTheNamesOfMountFlags) {
  Serve();
  csi::v1::NodeStageVolumeRequest request;
  (*request.mutable_secrets())["key"] = "open sesame";
  auto& flags = *request.mutable_volume_capability()->mutable_mount()->mutable_mount_flags();
  *flags.Add() = "password=hunter2";
  *flags.Add() = "ro";
  EXPECT_THAT(Call(*channel_, request, Soon()),
              FailsWith(Code::kInternal, "cannot mount with *** by password=***, nor with *** to read from"));
}

TEST_F(GrpcChannelTest, CleansLongMessages) {
  Serve();
  node_.outcome = grpc::Status(grpc::StatusCode::INTERNAL, "cass\xE9 " + std::string(6000, 'x'));
  const std::string said = Message(NodeId().status());
  EXPECT_THAT(said, HasSubstr("cass\uFFFD xxx"));
  EXPECT_LE(said.size(), std::string("NodeGetInfo: ").size() + 4096U + 3);
}

TEST_F(GrpcChannelTest, UnservedSocketIsUnavailable) {
  EXPECT_THAT(NodeId(), FailsWith(Code::kUnavailable, "the plugin at '" + socket_ + "'"));
}

TEST_F(GrpcChannelTest, FindsPluginThatStartsLaterOrAgain) {
  EXPECT_THAT(NodeId(), FailsWith(Code::kUnavailable, socket_));
  const RetryPolicy policy{.each = seconds(20), .first_pause = milliseconds(10), .longest_pause = milliseconds(50)};
  csi::v1::NodeGetInfoResponse info;
  const auto retried = [&] {
    return Retry(policy, Soon(), [&](Clock::time_point until) {
      return channel_->Call("/csi.v1.Node/NodeGetInfo", csi::v1::NodeGetInfoRequest(), info, until);
    });
  };
  Serve();
  ASSERT_OK(retried());
  End();
  EXPECT_THAT(NodeId(), FailsWith(Code::kUnavailable, socket_));
  node_.node_id = "node-2";
  Serve();
  ASSERT_OK(retried());
  EXPECT_EQ(info.node_id(), "node-2");
}

TEST_F(GrpcChannelTest, TimeoutNamesCallAndSocket) {
  Serve();
  EXPECT_THAT(Hang(Clock::now() + milliseconds(20)),
              AllOf(FailsWith(Code::kDeadlineExceeded, "no answer in time to NodeUnstageVolume"),
                    FailsWith(Code::kDeadlineExceeded, socket_)));
  EXPECT_OK(NodeId(Clock::time_point::max()));
}

TEST_F(GrpcChannelTest, CloseEndsRunningAndLaterCalls) {
  Serve();
  auto call = std::async(std::launch::async, [&] { return Hang(Soon()); });
  ASSERT_TRUE(node_.WaitUntilHanging());
  channel_->Close();
  EXPECT_THAT(call.get(), FailsWith(Code::kCancelled, "was closed"));
  EXPECT_THAT(NodeId(), FailsWith(Code::kCancelled, "was closed"));
  channel_ = ConnectCsi(socket_);
  EXPECT_OK(NodeId());
}

TEST_F(GrpcChannelTest, LargeAnswersArrive) {
  Serve();
  node_.node_id = std::string(16 << 20, 'n');
  const auto id = NodeId();
  ASSERT_OK(id);
  EXPECT_EQ(id->size(), node_.node_id.size());
}

}  // namespace
}  // namespace mooring::manager

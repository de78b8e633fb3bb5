// Tests plugin/api/rpc.h over a real server: the deadline of the caller, and the error as it arrives. tsan does not run
// these tests (tests/run).
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>

#include "csi.grpc.pb.h"
#include "plugin/api/rpc.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using Outcome = absl::StatusOr<csi::v1::NodeStageVolumeResponse>;
using std::chrono::seconds;

// A node whose NodeStageVolume does what a test says.
class TinyNode final : public csi::v1::Node::Service {
 public:
  explicit TinyNode(Rpc& rpc) : rpc_(rpc) {}
  grpc::Status NodeStageVolume(grpc::ServerContext* context, const csi::v1::NodeStageVolumeRequest* request,
                               csi::v1::NodeStageVolumeResponse* response) override {
    return rpc_.Serve(context, *request, response, [this](const Call& call) { return stage(call); });
  }

  std::function<Outcome(const Call&)> stage = [](const Call&) { return csi::v1::NodeStageVolumeResponse(); };

 private:
  Rpc& rpc_;
};

class RpcTest : public ::testing::Test {
 protected:
  RpcTest() {
    const std::string endpoint = "unix:" + dir_ / "csi.sock";
    grpc::ServerBuilder builder;
    builder.AddListeningPort(endpoint, grpc::InsecureServerCredentials());
    builder.RegisterService(&node_);
    server_ = builder.BuildAndStart();
    stub_ = csi::v1::Node::NewStub(grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials()));
    readiness_.Set(absl::OkStatus());
  }

  grpc::Status Stage(std::chrono::milliseconds deadline = seconds(20)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    csi::v1::NodeStageVolumeResponse response;
    return stub_->NodeStageVolume(&context, csi::v1::NodeStageVolumeRequest(), &response);
  }

  TempDir dir_;
  Readiness readiness_;
  Rpc rpc_{readiness_};
  TinyNode node_{rpc_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<csi::v1::Node::Stub> stub_;
};

TEST_F(RpcTest, EveryCodeArrivesAsItselfWithItsMessageAndNoDetails) {
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kDeadlineExceeded, StatusCode::kNotFound, StatusCode::kAlreadyExists,
        StatusCode::kResourceExhausted, StatusCode::kFailedPrecondition, StatusCode::kAborted, StatusCode::kOutOfRange,
        StatusCode::kUnimplemented, StatusCode::kInternal, StatusCode::kUnavailable}) {
    node_.stage = [code](const Call&) -> Outcome { return absl::Status(code, "größer\nals \"erlaubt\""); };
    const grpc::Status status = Stage();
    EXPECT_EQ(static_cast<int>(status.error_code()), static_cast<int>(code));
    EXPECT_EQ(status.error_message(), "größer\nals \"erlaubt\"");
    EXPECT_EQ(status.error_details(), "");
  }
}

TEST_F(RpcTest, BeforeThePluginIsReadyACallThatCannotWaitIsUnavailableWithinItsDeadline) {
  readiness_.Set(Unavailable("starting"));
  const grpc::Status status = Stage(std::chrono::milliseconds(1500));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << "not DEADLINE_EXCEEDED";
  EXPECT_EQ(status.error_message(), "starting");
}

TEST_F(RpcTest, ACallWaitsForOthersUntilItsDeadline) {
  std::chrono::steady_clock::time_point until;
  node_.stage = [&until](const Call& call) {
    until = call.wait_until;
    return csi::v1::NodeStageVolumeResponse();
  };
  const auto now = std::chrono::steady_clock::now();
  ASSERT_TRUE(Stage(seconds(10)).ok());
  EXPECT_GT(until, now + seconds(8));
  EXPECT_LT(until, std::chrono::steady_clock::now() + seconds(10));
  ASSERT_TRUE(Stage(std::chrono::hours(10)).ok());
  EXPECT_LT(until, std::chrono::steady_clock::now() + seconds(61));
}

}  // namespace
}  // namespace mooring::testing

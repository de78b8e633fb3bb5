// The wrapper of every RPC: sizes, readiness, codes, redaction, the log line.
#include "plugin/api/rpc.h"

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <future>
#include <optional>
#include <stdexcept>

#include "base/log.h"
#include "csi.pb.h"
#include "rpc/redact.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;

constexpr char kSecret[] = "hunter2";

bool MayBeSensitive(const FieldDescriptor& field) {
  return field.options().GetExtension(csi::v1::csi_secret) || field.name() == "mount_flags";
}

// Fills every field; what is below a sensitive one says kSecret.
void Fill(ProtoMessage& message, const std::string& text);

void FillField(ProtoMessage& message, const FieldDescriptor& field, const std::string& text) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    Fill(field.is_repeated() ? *reflection.AddMessage(&message, &field) : *reflection.MutableMessage(&message, &field),
         text);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    if (field.is_repeated()) {
      reflection.AddString(&message, &field, text);
    } else {
      reflection.SetString(&message, &field, text);
    }
  }
}

void Fill(ProtoMessage& message, const std::string& text) {
  const Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    // The last field of a oneof wins. So `block` is left out, because it would displace `mount` and its flags.
    if (field.name() == "block") continue;
    FillField(message, field, MayBeSensitive(field) ? kSecret : text);
  }
}

TEST(RedactedTest, NoMessageOfCsiShowsASecretOrAMountFlag) {
  int shown = 0;
  const google::protobuf::FileDescriptor& file = *csi::v1::NodeStageVolumeRequest::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) {
    const ProtoMessage* prototype =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(file.message_type(i));
    const std::unique_ptr<ProtoMessage> message(prototype->New());
    Fill(*message, "visible");
    if (message->ShortDebugString().find(kSecret) == std::string::npos) continue;
    ++shown;
    const std::string text = Redacted(*message);
    EXPECT_THAT(text, Not(HasSubstr(kSecret))) << message->GetDescriptor()->name();
    EXPECT_THAT(message->ShortDebugString(), HasSubstr(kSecret)) << "the message itself is not touched";
  }
  EXPECT_GE(shown, 20) << "the requests with secrets, and those with a capability";
}

TEST(RedactedTest, FlagsInARepeatedCapabilityAreLeftOutTheRestIsShown) {
  csi::v1::CreateVolumeRequest request;
  request.set_name("pvc-1\ninjected");
  for (int i = 0; i < 2; ++i) {
    auto& mount = *request.add_volume_capabilities()->mutable_mount();
    mount.set_fs_type("ext4");
    mount.add_mount_flags(kSecret);
  }
  (*request.mutable_parameters())["fsType"] = "xfs";
  EXPECT_THAT(Redacted(request), AllOf(HasSubstr("pvc-1\\ninjected"), HasSubstr("ext4"), HasSubstr("xfs"),
                                       Not(HasSubstr("\n")), Not(HasSubstr(kSecret))));
}

csi::v1::CreateVolumeRequest Named(std::size_t bytes) {
  csi::v1::CreateVolumeRequest request;
  request.set_name(std::string(bytes, 'n'));
  return request;
}

TEST(CheckSizesTest, ANameHas128BytesAtMost) {
  EXPECT_OK(CheckSizes(Named(0)));
  EXPECT_OK(CheckSizes(Named(128)));
  EXPECT_THAT(CheckSizes(Named(129)), FailsWith(StatusCode::kInvalidArgument, "name has 129 bytes, more than the 128"));
}

TEST(CheckSizesTest, AMapHas4KiBAtMostKeysAndValuesTogether) {
  csi::v1::CreateVolumeRequest request;
  (*request.mutable_parameters())["a"] = std::string(2047, 'v');
  (*request.mutable_parameters())["b"] = std::string(2047, 'v');
  EXPECT_OK(CheckSizes(request));
  (*request.mutable_parameters())["b"] += "v";
  EXPECT_THAT(CheckSizes(request), FailsWith(StatusCode::kInvalidArgument, "parameters has 4097 bytes"));
  csi::v1::NodeStageVolumeRequest stage;
  (*stage.mutable_secrets())[std::string(4097, 'k')] = "";
  const absl::Status status = CheckSizes(stage);
  EXPECT_THAT(status, FailsWith(StatusCode::kInvalidArgument, "secrets"));
  EXPECT_THAT(Message(status), Not(HasSubstr("kkk")));
}

TEST(CheckSizesTest, MountFlagsHave4KiBAtMostTogetherHoweverDeepTheyLie) {
  csi::v1::CreateVolumeRequest request;
  request.add_volume_capabilities();
  auto& mount = *request.add_volume_capabilities()->mutable_mount();
  for (int i = 0; i < 4; ++i) mount.add_mount_flags(std::string(1024, 'f'));
  EXPECT_OK(CheckSizes(request));
  mount.add_mount_flags("f");
  EXPECT_THAT(CheckSizes(request), FailsWith(StatusCode::kInvalidArgument, "mount_flags has 4097 bytes"));
}

TEST(CheckSizesTest, NestedTextIsLimitedToo) {
  csi::v1::NodeStageVolumeRequest request;
  request.mutable_volume_capability()->mutable_mount()->set_volume_mount_group(std::string(129, '1'));
  EXPECT_THAT(CheckSizes(request), FailsWith(StatusCode::kInvalidArgument, "volume_mount_group"));
  csi::v1::CreateVolumeRequest create;
  (*create.mutable_accessibility_requirements()->add_requisite()->mutable_segments())["k"] = std::string(4096, 'v');
  EXPECT_THAT(CheckSizes(create), FailsWith(StatusCode::kInvalidArgument, "segments"));
}

TEST(CheckSizesTest, IdsPathsAndTokensHaveChecksOfTheirOwn) {
  const std::string huge(10000, 'x');
  csi::v1::NodePublishVolumeRequest publish;
  publish.set_volume_id(huge);
  publish.set_target_path(huge);
  publish.set_staging_target_path(huge);
  EXPECT_OK(CheckSizes(publish));
  csi::v1::ListVolumesRequest list;
  list.set_starting_token(huge);
  EXPECT_OK(CheckSizes(list));
}

// Calls Serve directly, without gRPC's code, so that the thread sanitizer sees all threads.
class RpcServeTest : public ::testing::Test {
 protected:
  using Outcome = absl::StatusOr<csi::v1::NodeStageVolumeResponse>;

  RpcServeTest() {
    EXPECT_OK(log::Setup("debug", "text"));
    ::testing::internal::CaptureStderr();
    readiness_.Set(absl::OkStatus());
    request_.set_volume_id("vol-a");
  }
  ~RpcServeTest() override {
    ::testing::internal::GetCapturedStderr();
    EXPECT_OK(log::Setup("info", "text"));
  }

  grpc::Status Stage(Rpc::When when = Rpc::When::kWhenReady) {
    grpc::ServerContext context;
    csi::v1::NodeStageVolumeResponse response;
    return rpc_.Serve(
        &context, request_, &response, [this](const Call& call) { return stage_(call); }, when);
  }
  std::string Log() {
    std::string text = ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
    return text;
  }
  // A call that has begun and ends at the promise.
  std::thread StageUntil(std::promise<void>& let_go) {
    const auto inside = std::make_shared<std::promise<void>>();
    stage_ = [inside, &let_go](const Call&) {
      inside->set_value();
      let_go.get_future().wait();
      return csi::v1::NodeStageVolumeResponse();
    };
    std::thread call([this] { EXPECT_TRUE(Stage().ok()); });
    inside->get_future().wait();
    return call;
  }
  void FailWith(absl::Status status) {
    stage_ = [status](const Call&) -> Outcome { return status; };
  }

  Readiness readiness_;
  Rpc rpc_{readiness_};
  csi::v1::NodeStageVolumeRequest request_;
  std::function<Outcome(const Call&)> stage_ = [](const Call&) { return csi::v1::NodeStageVolumeResponse(); };
};

TEST_F(RpcServeTest, EveryCodeStaysItselfWithItsMessageAndNoDetails) {
  for (const absl::StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kDeadlineExceeded, StatusCode::kNotFound, StatusCode::kAlreadyExists,
        StatusCode::kResourceExhausted, StatusCode::kFailedPrecondition, StatusCode::kAborted, StatusCode::kOutOfRange,
        StatusCode::kUnimplemented, StatusCode::kInternal, StatusCode::kUnavailable}) {
    FailWith(absl::Status(code, "what went wrong"));
    const grpc::Status status = Stage();
    EXPECT_EQ(static_cast<int>(status.error_code()), static_cast<int>(code));
    EXPECT_EQ(status.error_message(), "what went wrong");
    EXPECT_EQ(status.error_details(), "");
  }
}

// Keeps what it is told: "begin NodeStageVolume", "end NodeStageVolume OK".
struct Told final : CallRecorder {
  void Begin(std::string_view method) override { words.push_back("begin " + std::string(method)); }
  void End(std::string_view method, absl::StatusCode code,
           std::optional<std::chrono::steady_clock::duration> took) override {
    EXPECT_TRUE(took && *took >= std::chrono::nanoseconds(0));
    words.push_back("end " + std::string(method) + " " + absl::StatusCodeToString(code));
  }
  std::vector<std::string> words;
};

TEST_F(RpcServeTest, ARecorderIsToldOfEachCallAndOfHowItEnded) {
  Told told;
  Rpc recorded(readiness_, &told);
  const auto stage = [&] {
    grpc::ServerContext context;
    csi::v1::NodeStageVolumeResponse response;
    return recorded.Serve(&context, request_, &response, [&](const Call& call) {
      EXPECT_EQ(told.words.back(), "begin NodeStageVolume");
      return stage_(call);
    });
  };
  EXPECT_TRUE(stage().ok());
  EXPECT_EQ(told.words.back(), "end NodeStageVolume OK");
  FailWith(NotFound("gone"));
  EXPECT_FALSE(stage().ok());
  EXPECT_EQ(told.words.back(), "end NodeStageVolume NOT_FOUND");
  (*request_.mutable_volume_context())["k"] = std::string(5000, 'v');
  told.words.push_back("begin NodeStageVolume");  // the handler is not asked
  EXPECT_FALSE(stage().ok());
  EXPECT_EQ(told.words.back(), "end NodeStageVolume INVALID_ARGUMENT");
  EXPECT_EQ(std::count(told.words.begin(), told.words.end(), "begin NodeStageVolume"), 4);
}

TEST_F(RpcServeTest, AnExceptionIsInternalWithItsCause) {
  stage_ = [](const Call&) -> Outcome { throw std::runtime_error("disk I/O error"); };
  const grpc::Status status = Stage();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(status.error_message(), HasSubstr("disk I/O error"));
}

TEST_F(RpcServeTest, ATooLargeRequestNeverReachesTheHandler) {
  std::atomic<bool> called = false;
  stage_ = [&called](const Call&) {
    called = true;
    return csi::v1::NodeStageVolumeResponse();
  };
  (*request_.mutable_volume_context())["k"] = std::string(5000, 'v');
  const grpc::Status status = Stage();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("volume_context"));
  EXPECT_FALSE(called);
}

TEST_F(RpcServeTest, BeforeThePluginIsReadyACallWaitsForIt) {
  readiness_.Set(Unavailable("starting"));
  std::thread ready([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    readiness_.Set(absl::OkStatus());
  });
  EXPECT_TRUE(Stage().ok());
  ready.join();
}

TEST_F(RpcServeTest, APluginThatCannotGetReadySaysWhy) {
  readiness_.Set(Internal("reconcile the mounts: no /proc"));
  EXPECT_THAT(Stage().error_message(), HasSubstr("no /proc"));
}

TEST_F(RpcServeTest, CallsThatAreAlwaysServedDoNotWait) {
  readiness_.Set(Unavailable("starting"));
  EXPECT_TRUE(Stage(Rpc::When::kAlways).ok());
}

TEST_F(RpcServeTest, ACallerWithoutADeadlineWaitsForAMinuteAtMost) {
  std::chrono::steady_clock::time_point until;
  stage_ = [&until](const Call& call) {
    until = call.wait_until;
    return csi::v1::NodeStageVolumeResponse();
  };
  ASSERT_TRUE(Stage().ok());
  EXPECT_GT(until, std::chrono::steady_clock::now() + std::chrono::seconds(55));
  EXPECT_LE(until, std::chrono::steady_clock::now() + std::chrono::seconds(60));
}

TEST_F(RpcServeTest, ManyCallsAtOnceWhileItGetsReadyAndWhileItIsDrained) {
  readiness_.Set(Unavailable("starting"));
  std::atomic<int> handled = 0, refused = 0;
  stage_ = [&handled](const Call&) {
    ++handled;
    return csi::v1::NodeStageVolumeResponse();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) refused += Stage().ok() ? 0 : 1;
    });
  }
  readiness_.Set(absl::OkStatus());
  rpc_.Drain(std::chrono::steady_clock::now() + std::chrono::seconds(20));
  const int at_the_end = handled;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(handled, at_the_end) << "drained, none is handled any more";
  EXPECT_EQ(handled + refused, 400);
}

TEST_F(RpcServeTest, DrainLetsARunningCallEndAndRefusesNewOnes) {
  std::promise<void> let_go;
  std::thread first = StageUntil(let_go);
  const auto start = std::chrono::steady_clock::now();
  rpc_.Drain(start + std::chrono::milliseconds(50));
  EXPECT_GE(std::chrono::steady_clock::now(), start + std::chrono::milliseconds(50)) << "the first is still under way";
  const grpc::Status second = Stage();
  EXPECT_EQ(second.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(second.error_message(), HasSubstr("stopping"));
  let_go.set_value();
  rpc_.Drain(start + std::chrono::seconds(20));
  EXPECT_LT(std::chrono::steady_clock::now(), start + std::chrono::seconds(19)) << "nothing is left to wait for";
  first.join();
}

TEST_F(RpcServeTest, DrainNamesTheCallsThatRunAtItsDeadline) {
  std::promise<void> let_go;
  std::thread first = StageUntil(let_go);
  EXPECT_THAT(rpc_.Drain(std::chrono::steady_clock::now()), ::testing::ElementsAre("NodeStageVolume 'vol-a'"));
  let_go.set_value();
  first.join();
  EXPECT_THAT(rpc_.Drain(std::chrono::steady_clock::now()), ::testing::IsEmpty());
}

TEST_F(RpcServeTest, ACallThatWaitsForThePluginToBeReadyIsRefusedAtTheEnd) {
  readiness_.Set(Unavailable("starting"));
  auto waiting = std::async(std::launch::async, [this] { return Stage(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(rpc_.Drain(start + std::chrono::seconds(20)), ::testing::IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now(), start + std::chrono::seconds(10));
  EXPECT_THAT(waiting.get().error_message(), HasSubstr("stopping"));
  readiness_.Set(absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(readiness_.Now())) << "the reconciler comes too late";
}

TEST_F(RpcServeTest, ARefusedMountFlagIsInTheAnswerAndNotInTheLog) {
  auto& mount = *request_.mutable_volume_capability()->mutable_mount();
  mount.add_mount_flags("noatime,hunter2=x");
  FailWith(InvalidArgument("mount flag 'hunter2' is not allowed for ext4"));
  EXPECT_THAT(Stage().error_message(), HasSubstr("hunter2"));
  EXPECT_THAT(Log(), AllOf(HasSubstr("is not allowed for ext4"), Not(HasSubstr("hunter2"))));
}

TEST_F(RpcServeTest, TheLogHasOneLineACallAndNoSecretAtAnyLevel) {
  request_.set_volume_id("vol-a\nlevel=error forged");
  request_.set_staging_target_path("/staging/a");
  (*request_.mutable_secrets())["password"] = kSecret;
  request_.mutable_volume_capability()->mutable_mount()->add_mount_flags("pass=hunter2");
  FailWith(NotFound("no such volume"));
  EXPECT_FALSE(Stage().ok());
  const std::string text = Log();
  EXPECT_THAT(text, AllOf(HasSubstr("method=NodeStageVolume"), HasSubstr("staging=/staging/a"),
                          HasSubstr("code=NOT_FOUND"), HasSubstr("cause='no such volume'")));
  EXPECT_THAT(text, Not(HasSubstr(kSecret)));
  EXPECT_THAT(text, Not(HasSubstr("\nlevel=error")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << "the request at debug, and the call\n" << text;
}

}  // namespace
}  // namespace mooring::testing

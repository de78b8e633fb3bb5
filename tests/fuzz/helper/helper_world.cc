#include "tests/fuzz/helper/helper_world.h"

#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>

#include <memory>
#include <tuple>

#include "base/file/path.h"
#include "mounter/helper/call_table.h"
#include "mounter/helper/helper_server.h"
#include "mounter/helper/wire.h"
#include "tests/fuzz/fuzz.h"

namespace mooring::fuzz {
namespace {

using testing::FakeKernel;
using testing::FakeMount;

constexpr std::uint64_t kBytes = 64U << 20U;

// Compares two messages as mounter.proto describes them, without the fields that it does not know. A missing field
// equals its default.
void RequireSame(const char* type, const std::string& first, const std::string& second, std::string_view invariant) {
  const std::unique_ptr<google::protobuf::Message> one(NewHelperMessage(type)), other(NewHelperMessage(type));
  Require(one->ParseFromString(first) && other->ParseFromString(second), "both encodings are messages");
  one->DiscardUnknownFields();
  other->DiscardUnknownFields();
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_message_field_comparison(google::protobuf::util::MessageDifferencer::EQUIVALENT);
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  Require(differencer.Compare(*one, *other), invariant, difference);
}

template <typename Argument>
void Encode(const Argument& argument, auto& message) {
  wire::To(argument, message);
}
template <typename First, typename Second>
void Encode(const std::pair<First, Second>& arguments, auto& message) {
  wire::To(arguments.first, arguments.second, message);
}

// The request once more, from its decoded arguments. Empty: its form is refused.
template <typename Call>
std::string EncodedAgain(const Call& call, const pb::Request& request) {
  pb::Request copy = request;
  const auto arguments = wire::From(*(copy.*call.arguments)());
  if (!arguments.ok()) return "";
  pb::Request again;
  again.set_patience_ms(request.patience_ms());
  Encode(*arguments, *(again.*call.arguments)());
  return again.SerializeAsString();
}

template <typename Method, typename Arguments, typename Result>
void CheckResult(const calls::Call<Method, Arguments, Result>& call, const pb::Answer& answer) {
  if constexpr (!std::is_void_v<Result>) {
    if (answer.code() != 0) return;
    pb::Answer copy = answer;
    const auto value = wire::From(*(copy.*call.result)());
    Require(value.ok(), "the plugin decodes the answer", value.ok() ? "" : Message(value.status()));
    pb::Answer again;
    wire::To(*value, *(again.*call.result)());
    RequireSame("mooring.pb.Answer", answer.SerializeAsString(), again.SerializeAsString(),
                "an answer is encoded to the same answer again");
  }
}

// Answers as the helper does: an exception is an error.
pb::Answer Guarded(const pb::Request& request, Mounter& mounter, bool& thrown) {
  try {
    return AnswerTo(request, mounter);
  } catch (const std::exception& error) {  // of the fake, about a path that it does not know
    thrown = true;
    pb::Answer answer;
    wire::To(Internal(error.what()), answer);
    return answer;
  }
}

bool IsOurs(const FakeMount& mount) {
  return IsBelow(mount.info.target, "/csi") && mount.info.target != "/csi/socket" &&
         !IsBelow(mount.info.target, "/csi/secret");
}

HelperPolicy Policy() {
  return {.roots = {"/csi", "/etc"},
          .sources = {"/state/volumes"},
          .label_prefix = "mooring",
          .forbidden_trees = {"/csi/secret"},
          .forbidden_places = {"/csi/socket"},
          .volume_directories = {"/state/directories"},
          .most_memory = kBytes};
}

}  // namespace

std::unique_ptr<google::protobuf::Message> NewHelperMessage(const std::string& type) {
  static MessageTypes& types = *new MessageTypes(MOORING_DESCRIPTORS "/helper_requests.desc");
  return types.New(type);
}

HelperWorld::HelperWorld() : guarded_(Policy(), fake_) {
  fake_.With([](FakeKernel& kernel) {
    for (const char* path : {"/csi/staging", "/csi/pods/p", "/csi/secret", "/csi/socket", "/other", "/etc/x",
                             "/state/volumes", "/state/directories/vol-d"}) {
      kernel.AddDirectory(path);
    }
    for (const char* image : {"/state/volumes/a.img", "/state/volumes/b.img", "/other/disk.img"}) {
      kernel.AddFile(image, kBytes);
      kernel.Node(image).filesystem = {FilesystemInfo::Content::kFilesystem, "ext4", kBytes, false, ""};
    }
    kernel.AddFile("/state/volumes/empty.img", kBytes);
    kernel.AddForeignLoop("/other/disk.img", "backup");
    kernel.AddForeignMount("/other", "nfs");
    kernel.AddForeignMount("/etc/x", "xfs");
  });
}

std::string HelperWorld::State() {
  return fake_.With([](FakeKernel& kernel) {
    std::string text = kernel.Describe();
    for (const FakeMount& mount : kernel.mounts()) {
      text += fmt::format("{} peer {} master {}\n", mount.info.target, mount.info.peer_group, mount.info.master);
      for (const FilesystemOption& option : mount.options) text += option.key + "=" + option.value.value_or("") + "\n";
    }
    return text;
  });
}

std::string HelperWorld::Foreign() {
  return fake_.With([](FakeKernel& kernel) {
    std::string text;
    for (const FakeMount& mount : kernel.mounts()) {
      if (!IsOurs(mount)) text += fmt::format("{} {}\n", mount.info.target, ToString(mount.info.flags));
    }
    for (const LoopInfo& loop : kernel.Loops()) {
      if (!loop.label.starts_with("mooring")) {
        text += fmt::format("{} {} {}\n", loop.device, loop.label, loop.auto_clear);
      }
    }
    for (const char* path : {"/other/disk.img", "/etc/x", "/csi/secret", "/csi/socket", "/state/volumes"}) {
      text += fmt::format("{} {}\n", path, kernel.Exists(path));
    }
    return text;
  });
}

pb::Answer HelperWorld::Answer(const pb::Request& request) {
  const std::string before = State(), foreign = Foreign();
  bool thrown = false;
  const pb::Answer answer = Guarded(request, guarded_, thrown);
  Show(fmt::format("{}: {}", answer.code(), answer.message()));
  const std::string after = State();
  const std::string details = after == before ? "" : answer.message() + "\nbefore:\n" + before + "after:\n" + after;
  Require(Foreign() == foreign, "foreign mounts, devices and files stay", details);
  if (thrown) return answer;
  Require(answer.code() == 0 || after == before, "a refused request changes nothing", details);
  Require(answer.code() == 0 || !answer.message().empty(), "an error has a message");
  const auto check = [&](const auto& call) {
    if (call.number != request.call_case()) return;
    const std::string again = EncodedAgain(call, request);
    Require(!again.empty() || answer.code() != 0, "a request of an invalid form is refused");
    if (!again.empty()) {
      RequireSame("mooring.pb.Request", request.SerializeAsString(), again,
                  "a request is encoded to the same request again");
    }
    Require(!call.handling.read_only || after == before, "a request that reads changes nothing", details);
    CheckResult(call, answer);
  };
  std::apply([&](const auto&... call) { (check(call), ...); }, calls::kAll);
  return answer;
}

}  // namespace mooring::fuzz

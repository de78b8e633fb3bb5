// The manager's records as they are stored and sent, requests of its API, and the options of Docker's volumes.
#include <google/protobuf/util/message_differencer.h>

#include <set>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/api/messages.h"
#include "manager/docker/create_options.h"
#include "manager/records/record_codec.h"
#include "rpc/redact.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/messages/message_mutator.h"
#include "tests/fuzz/messages/message_types.h"

namespace mooring::fuzz {
namespace {

using google::protobuf::util::MessageDifferencer;

std::unique_ptr<google::protobuf::Message> NewRecord() {
  static MessageTypes& types = *new MessageTypes(MOORING_DESCRIPTORS "/records.desc");
  return types.New("Record");
}

void CheckError(const absl::Status& status) {
  Require(!Message(status).empty(), "an error has a message");
  Require(IsUtf8(Message(status)) && !HasControlByte(Message(status)), "an error can be logged", Message(status));
}

// Fields that a record has in another form, or with a default.
class Changed final : public MessageDifferencer::IgnoreCriteria {
  bool IsIgnored(const google::protobuf::Message&, const google::protobuf::Message&,
                 const google::protobuf::FieldDescriptor* field,
                 const std::vector<MessageDifferencer::SpecificField>&) override {
    static const std::set<std::string> kNames = {"attachment", "exhausted_words", "mount_flags",      "namespace",
                                                 "problem",    "generation",      "start_deadline_s", "text"};
    return kNames.contains(field->name());
  }
};

// A record that is read and written again is read as the same.
template <typename Message>
void TryRecord(const google::protobuf::Message& input) {
  Message message;
  Require(message.ParseFromString(input.SerializeAsString()), "the input can be sent");
  const auto record = manager::FromProto(message);
  if (!record.ok()) return CheckError(record.status());
  const Message stored = manager::ToProto(*record);
  MessageDifferencer differencer;
  differencer.set_message_field_comparison(MessageDifferencer::EQUIVALENT);
  differencer.AddIgnoreCriteria(new Changed);  // belongs to the differencer
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  Require(differencer.Compare(message, stored), "a record is stored as it was sent", difference);
  const auto again = manager::FromProto(stored);
  Require(again.ok(), "a stored record can be read", stored.DebugString());
  const Message twice = manager::ToProto(*again);
  Require(MessageDifferencer::Equals(stored, twice), "a record is stored as it was read",
          stored.DebugString() + twice.DebugString());
}

void TryRequest(const absl::Status& status, const google::protobuf::Message& request) {
  if (status.ok()) return;
  CheckError(status);
  WithoutSecretsOf(request, Message(status), Reader::kLog);
}

manager::Volume AVolume() {
  manager::Volume volume;
  volume.key.id = "db";
  volume.plugin = "p";
  volume.capabilities = {{}};
  return volume;
}

void TryDocker(const google::protobuf::Message& input) {
  const auto* field = input.GetDescriptor()->FindFieldByName("docker_options");
  const auto& reflection = *input.GetReflection();
  manager::StringMap options;
  std::string shown;
  for (int i = 0; i < reflection.FieldSize(input, field); ++i) {
    const auto& entry = reflection.GetRepeatedMessage(input, field, i);
    const auto* key = entry.GetDescriptor()->map_key();
    const auto* value = entry.GetDescriptor()->map_value();
    std::string name = entry.GetReflection()->GetString(entry, key);
    std::string text = entry.GetReflection()->GetString(entry, value);
    if (name == "secrets-file") continue;  // it reads a file of the host
    shown += name;
    if (!name.starts_with("secret.")) shown += text;
    options.insert_or_assign(std::move(name), std::move(text));
  }
  if (options.empty()) return;
  const auto parsed = manager::ParseDockerOptions(options);
  if (parsed.ok()) return;
  CheckError(parsed.status());
  Require(HasSecret(shown) || !HasSecret(Message(parsed.status())), "no error contains a secret",
          Message(parsed.status()));
}

void TryField(const std::string& name, const google::protobuf::Message& message) {
  namespace v1 = manager::v1;
  if (name == "volume") TryRecord<v1::Volume>(message);
  if (name == "claim") TryRecord<v1::Claim>(message);
  if (name == "host") TryRecord<v1::Host>(message);
  if (name == "attachment") TryRecord<v1::Attachment>(message);
  if (name == "plugin") TryRecord<v1::PluginRecord>(message);
  if (name == "instance") TryRecord<v1::Instance>(message);
  if (name == "event") TryRecord<v1::Event>(message);
  if (name == "volume") {
    TryRequest(manager::AskedVolume(static_cast<const v1::Volume&>(message), {}).status(), message);
  } else if (name == "claim_request") {
    const auto& request = static_cast<const v1::ClaimVolumeRequest&>(message);
    TryRequest(manager::ParseClaim(request, AVolume(), "n1").status(), message);
  } else if (name == "attach_request") {
    TryRequest(manager::ParseAttach(static_cast<const v1::AttachRequest&>(message), AVolume()).status(), message);
  } else if (name == "run") {
    TryRequest(manager::ParseRun(static_cast<const v1::PluginRun&>(message)).status(), message);
  }
}

const std::vector<std::string> kWords = {"default",
                                         "db",
                                         "db[0]",
                                         "web-1",
                                         "n1",
                                         "p",
                                         "unix:///run/p.sock",
                                         "/run/docker.sock",
                                         "/srv/db",
                                         "../x",
                                         "ext4",
                                         "noatime",
                                         "password=hunter2-secret",
                                         "size",
                                         "max-size",
                                         "1GiB",
                                         "plugin",
                                         "fs-type",
                                         "mount-flags",
                                         "access",
                                         "single-node-writer",
                                         "propagation",
                                         "rshared",
                                         "rslave",
                                         "ro",
                                         "true",
                                         "from-snapshot",
                                         "from-volume",
                                         "uid",
                                         "gid",
                                         "mode",
                                         "0770",
                                         "param.a",
                                         "secret.a",
                                         "Secret_A",
                                         "hunter2-secret",
                                         "exec",
                                         "container",
                                         ""};

}  // namespace

void TryOne(const std::uint8_t* data, std::size_t size) {
  const auto input = NewRecord();
  if (!ParseInput(data, size, *input)) return;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  input->GetReflection()->ListFields(*input, &fields);
  for (const auto* field : fields) {
    if (!field->is_repeated()) TryField(field->name(), input->GetReflection()->GetMessage(*input, field));
  }
  TryDocker(*input);
}

std::size_t Mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return MutateInput(data, size, most, seed, *NewRecord(), kWords);
}

}  // namespace mooring::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mooring::fuzz::Mutate(data, size, most, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mooring::fuzz::TryOne(data, size);
  return 0;
}

#include "manager/records/record_codec.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "manager/records/names.h"
#include "tests/manager/prelude.h"
#include "tests/manager/state/sample_records.h"

namespace mooring::manager {
namespace {

// Volume.mount_flags is not part of a record: the API fills it in.
std::vector<std::string> FieldsWithoutValue(const google::protobuf::Message& message) {
  std::vector<std::string> without;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* field = message.GetDescriptor()->field(i);
    const bool set = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) > 0
                                          : message.GetReflection()->HasField(message, field);
    if (!set && field->name() != "mount_flags") without.push_back(field->name());
  }
  return without;
}

// Converts to a message and back. Each field of the message has a value, and none is lost or swapped.
template <typename Record>
void ExpectRoundTrip(Record record) {
  record.revisions = {.create = 3, .modify = 5};
  const auto message = ToProto(record);
  EXPECT_THAT(FieldsWithoutValue(message), IsEmpty()) << "the sample, or ToProto, leaves fields out";
  const auto back = FromProto(message);
  ASSERT_OK(back);
  EXPECT_EQ(back->revisions.create, 3);
  EXPECT_EQ(back->revisions.modify, 5);
  std::string difference;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(message, ToProto(*back))) << difference;
}

TEST(RecordCodecTest, VolumeRoundTrip) {
  ExpectRoundTrip(samples::SampleVolume());
  const Volume back = *FromProto(ToProto(samples::SampleVolume()));
  EXPECT_EQ(back.capabilities, samples::SampleVolume().capabilities);
  EXPECT_EQ(back.required_topologies, samples::SampleVolume().required_topologies);
  EXPECT_EQ(back.preferred_topologies, samples::SampleVolume().preferred_topologies);
  EXPECT_EQ(back.in_use, samples::SampleVolume().in_use);
  EXPECT_EQ(back.exhausted_at, samples::SampleVolume().exhausted_at);
}

TEST(RecordCodecTest, SnapshotRoundTrip) {
  ExpectRoundTrip(samples::SampleSnapshot());
  const Snapshot back = *FromProto(ToProto(samples::SampleSnapshot()));
  EXPECT_EQ(back.source, samples::SampleSnapshot().source);
  EXPECT_EQ(back.topologies, samples::SampleSnapshot().topologies);
  EXPECT_EQ(back.made_at, samples::SampleSnapshot().made_at);
}

TEST(RecordCodecTest, ClaimRoundTrip) {
  ExpectRoundTrip(samples::SampleClaim());
  const Claim back = *FromProto(ToProto(samples::SampleClaim()));
  EXPECT_EQ(back.past_since, samples::SampleClaim().past_since);
  EXPECT_EQ(back.taken_at, samples::SampleClaim().taken_at);
  EXPECT_EQ(back.publish, Claim::Publish::kSent);
}

TEST(RecordCodecTest, HostRoundTrip) {
  ExpectRoundTrip(samples::SampleHost());
  EXPECT_EQ(FromProto(ToProto(samples::SampleHost()))->away_since, samples::SampleHost().away_since);
}

TEST(RecordCodecTest, AttachmentRecordRoundTrip) {
  ExpectRoundTrip(samples::SampleMount());
  const AttachmentRecord back = *FromProto(ToProto(samples::SampleMount()));
  EXPECT_EQ(back.options, samples::SampleMount().options);
  EXPECT_EQ(back.propagation, Propagation::kSlave);
}

TEST(RecordCodecTest, PluginRecordRoundTrip) {
  ExpectRoundTrip(samples::SamplePlugin());
  EXPECT_EQ(FromProto(ToProto(samples::SamplePlugin()))->run, samples::SamplePlugin().run);
  EXPECT_EQ(FromProto(ToProto(samples::SamplePlugin()))->types, samples::SamplePlugin().types);
}

TEST(RecordCodecTest, InstanceRoundTrip) {
  EXPECT_THAT(FieldsWithoutValue(ToProto(samples::SampleInstance())), IsEmpty());
  EXPECT_EQ(*FromProto(ToProto(samples::SampleInstance())), samples::SampleInstance());
}

TEST(RecordCodecTest, AbsentFieldsStayAbsent) {
  Volume plain;
  plain.key.id = "db";
  EXPECT_FALSE(ToProto(plain).has_in_use());
  const Volume volume = *FromProto(ToProto(plain));
  EXPECT_FALSE(volume.in_use.has_value());
  EXPECT_FALSE(volume.exhausted_at.has_value());
  EXPECT_EQ(volume.key.ns, "default");
  EXPECT_FALSE(FromProto(ToProto(Claim()))->past_since.has_value());
  EXPECT_FALSE(FromProto(ToProto(PluginRecord()))->run.has_value());
  EXPECT_EQ(FromProto(v1::PluginRun())->start_deadline, seconds(300));
}

TEST(RecordCodecTest, MessagesHaveNoSecrets) {
  const v1::Volume shown = ToProto(samples::SampleVolume());
  EXPECT_TRUE(shown.has_secrets());
  EXPECT_THAT(shown.SerializeAsString(), Not(HasSubstr(samples::kSecret)));
  EXPECT_THAT(shown.DebugString(), Not(HasSubstr(samples::kSecret)));
}

// Only requests and the stored form may have a field for secrets.
TEST(RecordCodecTest, NoAnswerHasAFieldForSecrets) {
  const auto* file = v1::Volume::descriptor()->file();
  for (int i = 0; i < file->message_type_count(); ++i) {
    const auto* message = file->message_type(i);
    if (message->name() == "StoredSecrets" || message->name().find("Request") != std::string::npos) continue;
    for (int field = 0; field < message->field_count(); ++field) {
      EXPECT_NE(message->field(field)->name(), "secrets") << message->name();
    }
  }
}

// "single-node-writer" for SINGLE_NODE_WRITER.
std::string NameOf(const google::protobuf::EnumValueDescriptor& value) {
  std::string name = absl::AsciiStrToLower(value.name());
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

template <typename Enum>
void ExpectSameNumbers(const google::protobuf::EnumDescriptor& type) {
  for (int i = 0; i < type.value_count(); ++i) {
    const auto& value = *type.value(i);
    if (value.name().ends_with("_UNSPECIFIED")) continue;
    EXPECT_EQ(ToString(static_cast<Enum>(value.number())), NameOf(value)) << type.full_name();
  }
}

TEST(RecordCodecTest, EnumsOfRecordsHaveTheNumbersOfMessages) {
  ExpectSameNumbers<AccessMode>(*v1::AccessMode_descriptor());
  ExpectSameNumbers<AttachmentMode>(*v1::AttachmentMode_descriptor());
  ExpectSameNumbers<ClaimMode>(*v1::ClaimMode_descriptor());
  ExpectSameNumbers<Volume::State>(*v1::Volume::State_descriptor());
  ExpectSameNumbers<Claim::State>(*v1::Claim::State_descriptor());
  ExpectSameNumbers<AttachmentRecord::Phase>(*v1::Attachment::Phase_descriptor());
  EXPECT_EQ(static_cast<int>(PluginType::kNode), v1::CSI_NODE);
  EXPECT_EQ(static_cast<int>(PluginType::kController), v1::CSI_CONTROLLER);
  EXPECT_EQ(static_cast<int>(Claim::Publish::kSent), v1::Claim::PUBLISH_SENT);
  EXPECT_EQ(static_cast<int>(Claim::Publish::kDone), v1::Claim::PUBLISH_DONE);
  EXPECT_EQ(static_cast<int>(PluginRecord::Run::Kind::kContainer), v1::PluginRun::CONTAINER);
}

TEST(RecordCodecTest, Propagations) {
  EXPECT_EQ(*FromProto(v1::PROPAGATION_PRIVATE), Propagation::kPrivate);
  EXPECT_EQ(*FromProto(v1::PROPAGATION_SHARED), Propagation::kShared);
  for (const Propagation each : {Propagation::kPrivate, Propagation::kSlave, Propagation::kShared}) {
    const v1::PluginBind message = ToProto(PluginRecord::Bind{.source = "", .target = "", .propagation = each});
    EXPECT_EQ(*FromProto(message.propagation()), each);
  }
  EXPECT_EQ(ToProto(PluginRecord::Bind{.source = "", .target = "", .propagation = Propagation::kInherit}).propagation(),
            v1::PROPAGATION_PRIVATE);
}

TEST(RecordCodecTest, ErrorNamesTheInvalidField) {
  EXPECT_THAT(FromProto(v1::ACCESS_MODE_UNSPECIFIED),
              FailsWith(absl::StatusCode::kInvalidArgument, "access mode is missing"));
  EXPECT_THAT(FromProto(v1::CLAIM_MODE_UNSPECIFIED),
              FailsWith(absl::StatusCode::kInvalidArgument, "claim mode is missing"));
  v1::Capability capability;
  capability.set_access(v1::SINGLE_NODE_WRITER);
  EXPECT_EQ(FromProto(capability)->attachment, AttachmentMode::kFileSystem);
  v1::Volume volume = ToProto(samples::SampleVolume());
  volume.mutable_capabilities(1)->set_access(static_cast<v1::AccessMode>(77));
  EXPECT_THAT(FromProto(volume), FailsWith(Code::kInvalidArgument, "access mode: 77"));
}

TEST(RecordCodecTest, ATimeThatDoesNotFitIsRefused) {
  v1::Volume volume = ToProto(samples::SampleVolume());
  for (const std::int64_t ms : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    volume.set_created_at_ms(ms);
    EXPECT_THAT(FromProto(volume), FailsWith(Code::kInvalidArgument, "created_at_ms"));
  }
}

TEST(RecordCodecTest, InvalidUtf8IsReplaced) {
  Volume volume = samples::SampleVolume();
  volume.exhausted_words = "plein \xE9";
  Claim claim = samples::SampleClaim();
  claim.problem = "cass\xE9";
  AttachmentRecord mount = samples::SampleMount();
  mount.problem = "cass\xE9";
  v1::Volume volume_again;
  EXPECT_TRUE(volume_again.ParseFromString(ToProto(volume).SerializeAsString()));
  v1::Claim claim_again;
  EXPECT_TRUE(claim_again.ParseFromString(ToProto(claim).SerializeAsString()));
  v1::Attachment mount_again;
  EXPECT_TRUE(mount_again.ParseFromString(ToProto(mount).SerializeAsString()));
  EXPECT_EQ(claim_again.problem(), "cass\uFFFD");
}

TEST(RecordCodecTest, EventRoundTrip) {
  const v1::Event message = ToProto(samples::SampleEvent());
  EXPECT_THAT(FieldsWithoutValue(message), IsEmpty());
  const auto back = FromProto(message);
  ASSERT_OK(back);
  EXPECT_EQ(ToProto(*back).SerializeAsString(), message.SerializeAsString());
}

}  // namespace
}  // namespace mooring::manager

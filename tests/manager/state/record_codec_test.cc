#include "manager/records/record_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/message_differencer.h>

#include <string>
#include <vector>

#include "manager/records/names.h"
#include "tests/manager/state/sample_records.h"
#include "tests/support/status_matchers.h"

namespace mooring::manager {
namespace {

using ::mooring::testing::FailsWith;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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
  auto again = ToProto(*back);
  if constexpr (std::is_same_v<Record, Volume>) again.set_has_secrets(true);  // RecordsStore sets it
  std::string difference;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(message, again)) << difference;
}

TEST(RecordCodecTest, VolumeRoundTrip) {
  ExpectRoundTrip(testing::SampleVolume());
  const Volume back = *FromProto(ToProto(testing::SampleVolume()));
  EXPECT_EQ(back.capabilities, testing::SampleVolume().capabilities);
  EXPECT_EQ(back.required_topologies, testing::SampleVolume().required_topologies);
  EXPECT_EQ(back.preferred_topologies, testing::SampleVolume().preferred_topologies);
  EXPECT_EQ(back.in_use, testing::SampleVolume().in_use);
  EXPECT_EQ(back.exhausted_at, testing::SampleVolume().exhausted_at);
}

TEST(RecordCodecTest, ClaimRoundTrip) {
  ExpectRoundTrip(testing::SampleClaim());
  const Claim back = *FromProto(ToProto(testing::SampleClaim()));
  EXPECT_EQ(back.past_since, testing::SampleClaim().past_since);
  EXPECT_EQ(back.taken_at, testing::SampleClaim().taken_at);
  EXPECT_EQ(back.publish, Claim::Publish::kSent);
}

TEST(RecordCodecTest, AttachmentRecordRoundTrip) {
  ExpectRoundTrip(testing::SampleMount());
  const AttachmentRecord back = *FromProto(ToProto(testing::SampleMount()));
  EXPECT_EQ(back.options, testing::SampleMount().options);
  EXPECT_EQ(back.propagation, Propagation::kSlave);
}

TEST(RecordCodecTest, PluginRecordRoundTrip) {
  ExpectRoundTrip(testing::SamplePlugin());
  EXPECT_EQ(FromProto(ToProto(testing::SamplePlugin()))->run, testing::SamplePlugin().run);
  EXPECT_EQ(FromProto(ToProto(testing::SamplePlugin()))->types, testing::SamplePlugin().types);
}

TEST(RecordCodecTest, InstanceRoundTrip) {
  EXPECT_THAT(FieldsWithoutValue(ToProto(testing::SampleInstance())), IsEmpty());
  EXPECT_EQ(*FromProto(ToProto(testing::SampleInstance())), testing::SampleInstance());
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
  EXPECT_EQ(FromProto(v1::PluginRun())->start_deadline, std::chrono::seconds(300));
}

TEST(RecordCodecTest, MessagesHaveNoSecrets) {
  const v1::Volume shown = ToProto(testing::SampleVolume());
  EXPECT_TRUE(shown.has_secrets());
  EXPECT_THAT(shown.SerializeAsString(), Not(HasSubstr(testing::kSecret)));
  EXPECT_THAT(shown.DebugString(), Not(HasSubstr(testing::kSecret)));
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

template <typename Value, typename Message>
void ExpectEachBack(std::vector<Value> values, const google::protobuf::EnumDescriptor& descriptor, int unspecified) {
  std::vector<int> numbers;
  for (const Value value : values) {
    const Message message = ToProto(value);
    EXPECT_THAT(numbers, Not(Contains(static_cast<int>(message))));
    numbers.push_back(message);
    EXPECT_EQ(*FromProto(message), value);
  }
  EXPECT_EQ(static_cast<int>(numbers.size()), descriptor.value_count() - unspecified);
  EXPECT_THAT(FromProto(static_cast<Message>(99)), FailsWith(absl::StatusCode::kInvalidArgument, "99"));
}

TEST(RecordCodecTest, EnumeratorsHaveDistinctNumbers) {
  ExpectEachBack<AccessMode, v1::AccessMode>(
      {AccessMode::kSingleNodeReaderOnly, AccessMode::kSingleNodeWriter, AccessMode::kSingleNodeSingleWriter,
       AccessMode::kSingleNodeMultiWriter, AccessMode::kMultiNodeReaderOnly, AccessMode::kMultiNodeSingleWriter,
       AccessMode::kMultiNodeMultiWriter},
      *v1::AccessMode_descriptor(), 1);
  ExpectEachBack<AttachmentMode, v1::AttachmentMode>({AttachmentMode::kFileSystem, AttachmentMode::kBlockDevice},
                                                     *v1::AttachmentMode_descriptor(), 1);
  ExpectEachBack<ClaimMode, v1::ClaimMode>({ClaimMode::kRead, ClaimMode::kWrite}, *v1::ClaimMode_descriptor(), 1);
  ExpectEachBack<PluginType, v1::PluginType>({PluginType::kNode, PluginType::kController}, *v1::PluginType_descriptor(),
                                             1);
  ExpectEachBack<Propagation, v1::Propagation>({Propagation::kPrivate, Propagation::kSlave, Propagation::kShared},
                                               *v1::Propagation_descriptor(), 0);
}

TEST(RecordCodecTest, ErrorNamesTheInvalidField) {
  EXPECT_THAT(FromProto(v1::ACCESS_MODE_UNSPECIFIED),
              FailsWith(absl::StatusCode::kInvalidArgument, "access mode is missing"));
  EXPECT_THAT(FromProto(v1::CLAIM_MODE_UNSPECIFIED),
              FailsWith(absl::StatusCode::kInvalidArgument, "claim mode is missing"));
  EXPECT_EQ(*FromProto(v1::ATTACHMENT_MODE_UNSPECIFIED), AttachmentMode::kFileSystem);
  v1::Volume volume = ToProto(testing::SampleVolume());
  volume.mutable_capabilities(1)->set_access(static_cast<v1::AccessMode>(77));
  EXPECT_THAT(FromProto(volume), FailsWith(absl::StatusCode::kInvalidArgument, "access mode: 77"));
}

TEST(RecordCodecTest, InvalidUtf8IsReplaced) {
  Volume volume = testing::SampleVolume();
  volume.exhausted_words = "plein \xE9";
  Claim claim = testing::SampleClaim();
  claim.problem = "cass\xE9";
  AttachmentRecord mount = testing::SampleMount();
  mount.problem = "cass\xE9";
  v1::Volume volume_again;
  EXPECT_TRUE(volume_again.ParseFromString(ToProto(volume).SerializeAsString()));
  v1::Claim claim_again;
  EXPECT_TRUE(claim_again.ParseFromString(ToProto(claim).SerializeAsString()));
  v1::Attachment mount_again;
  EXPECT_TRUE(mount_again.ParseFromString(ToProto(mount).SerializeAsString()));
  EXPECT_EQ(claim_again.problem(), "cass\uFFFD");
}

}  // namespace
}  // namespace mooring::manager

#include "cli/manager/parse/value_text.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include "base/status.h"
#include "cli/flags/enum_words.h"
#include "mounter/propagation.h"

namespace mooring::cli::manager_area {
namespace {

using google::protobuf::util::TimeUtil;

template <typename Enum>
absl::StatusOr<Enum> Parse(std::string_view word, std::string_view what) {
  if (word.empty()) return static_cast<Enum>(0);
  MOORING_ASSIGN_OR_RETURN(const int value, ParseEnumWord(*google::protobuf::GetEnumDescriptor<Enum>(), word, what));
  return static_cast<Enum>(value);
}

template <typename Enum>
std::string Word(Enum value, std::string_view what) {
  return value == 0 ? "" : EnumWord(*google::protobuf::GetEnumDescriptor<Enum>(), value, what);
}

}  // namespace

absl::StatusOr<v1::AccessMode> ParseAccessMode(std::string_view word) {
  return Parse<v1::AccessMode>(word, "access mode");
}

absl::StatusOr<v1::AttachmentMode> ParseAttachmentMode(std::string_view word) {
  return Parse<v1::AttachmentMode>(word, "attachment mode");
}

absl::StatusOr<v1::ClaimMode> ParseClaimMode(std::string_view word) { return Parse<v1::ClaimMode>(word, "claim mode"); }

absl::StatusOr<v1::Propagation> ParsePropagation(std::string_view word) {
  if (word.empty()) return v1::PROPAGATION_PRIVATE;
  MOORING_ASSIGN_OR_RETURN(const Propagation propagation, mooring::ParsePropagation(word));
  switch (propagation) {
    case Propagation::kPrivate:
      return v1::PROPAGATION_PRIVATE;
    case Propagation::kSlave:
      return v1::PROPAGATION_SLAVE;
    case Propagation::kShared:
      return v1::PROPAGATION_SHARED;
    case Propagation::kInherit:
      break;
  }
  return InvalidArgument("propagation 'inherit' is not possible here: give private, rslave or rshared");
}

std::string ToString(v1::AccessMode mode) { return Word(mode, "access-mode"); }
std::string ToString(v1::AttachmentMode mode) { return Word(mode, "attachment-mode"); }
std::string ToString(v1::ClaimMode mode) { return Word(mode, "claim-mode"); }

std::string ToString(v1::Propagation propagation) {
  if (propagation == v1::PROPAGATION_PRIVATE) return "private";
  if (propagation == v1::PROPAGATION_SLAVE) return "rslave";
  if (propagation == v1::PROPAGATION_SHARED) return "rshared";
  return fmt::format("propagation-{}", int{propagation});
}

std::string ToString(v1::Claim::State state) { return EnumWord(*v1::Claim::State_descriptor(), state, "state"); }

std::string ToString(const v1::Capability& capability) {
  const std::string attachment = ToString(capability.attachment());
  return ToString(capability.access()) + (attachment.empty() ? "" : " ") + attachment;
}

std::string ToString(const v1::VolumeKey& key) {
  const bool is_default = key.namespace_().empty() || key.namespace_() == "default";
  return is_default ? key.id() : key.namespace_() + "/" + key.id();
}

std::string TimeText(std::int64_t unix_ms) {
  const std::int64_t seconds = unix_ms / 1000;
  const bool is_date = seconds > 0 && seconds <= TimeUtil::kTimestampMaxSeconds;
  return is_date ? TimeUtil::ToString(TimeUtil::SecondsToTimestamp(seconds)) : "";
}

std::string PerAllocId(const std::string& id, std::uint32_t index) { return fmt::format("{}[{}]", id, index); }

}  // namespace mooring::cli::manager_area

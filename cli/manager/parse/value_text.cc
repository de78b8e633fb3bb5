#include "cli/manager/parse/value_text.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include "base/status.h"
#include "base/text/quote.h"
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

constexpr std::string_view kBlanks = " \t\r\n";

// The characters that a backslash escapes between double quotes. Before any other character, it is an ordinary one.
constexpr std::string_view kEscapable = "$`\"\\";

// Reads one word from the beginning of `line`, and removes it from `line`.
class WordReader {
 public:
  explicit WordReader(std::string_view& line) : line_(line) {}

  absl::StatusOr<std::string> Read() {
    while (!line_.empty() && kBlanks.find(line_[0]) == std::string_view::npos) MOORING_RETURN_IF_ERROR(ReadPart());
    return word_;
  }

 private:
  char Next() {
    const char c = line_[0];
    line_.remove_prefix(1);
    return c;
  }

  absl::Status ReadPart() {
    const char c = Next();
    if (c == '\'') return ReadSingle();
    if (c == '"') return ReadDouble();
    if (c != '\\') {
      word_ += c;
      return absl::OkStatus();
    }
    if (line_.empty()) return InvalidArgument("the command ends with a backslash");
    word_ += Next();
    return absl::OkStatus();
  }

  absl::Status ReadSingle() {
    const std::size_t end = line_.find('\'');
    if (end == std::string_view::npos) return InvalidArgument("a ' is not closed");
    word_ += line_.substr(0, end);
    line_.remove_prefix(end + 1);
    return absl::OkStatus();
  }

  absl::Status ReadDouble() {
    while (!line_.empty()) {
      const char c = Next();
      if (c == '"') return absl::OkStatus();
      const bool escapes = c == '\\' && !line_.empty() && kEscapable.find(line_[0]) != std::string_view::npos;
      word_ += escapes ? Next() : c;
    }
    return InvalidArgument("a \" is not closed");
  }

  std::string_view& line_;
  std::string word_;
};

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

std::string NextTryText(const v1::OwedWork& work) {
  return work.next_try_ms() == 0 ? "now" : fmt::format("in {:.0f} s", static_cast<double>(work.next_try_ms()) / 1000);
}

std::string PerAllocId(const std::string& id, std::uint32_t index) { return fmt::format("{}[{}]", id, index); }

absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) break;
    MOORING_ASSIGN_OR_RETURN(words.emplace_back(), WordReader(line).Read());
  }
  if (words.empty()) return InvalidArgument("the command has no words");
  return words;
}

}  // namespace mooring::cli::manager_area

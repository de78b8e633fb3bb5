#include "manager/records/words.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/propagation.h"

namespace mooring::manager {
namespace {

template <typename Value>
using Word = std::pair<Value, std::string_view>;

constexpr std::array<Word<AccessMode>, 7> kAccessModes = {{
    {AccessMode::kSingleNodeReaderOnly, "single-node-reader-only"},
    {AccessMode::kSingleNodeWriter, "single-node-writer"},
    {AccessMode::kSingleNodeSingleWriter, "single-node-single-writer"},
    {AccessMode::kSingleNodeMultiWriter, "single-node-multi-writer"},
    {AccessMode::kMultiNodeReaderOnly, "multi-node-reader-only"},
    {AccessMode::kMultiNodeSingleWriter, "multi-node-single-writer"},
    {AccessMode::kMultiNodeMultiWriter, "multi-node-multi-writer"},
}};
constexpr std::array<Word<Attachment>, 2> kAttachments = {{
    {Attachment::kFileSystem, "file-system"},
    {Attachment::kBlockDevice, "block-device"},
}};
constexpr std::array<Word<ClaimMode>, 2> kClaimModes = {{
    {ClaimMode::kRead, "read"},
    {ClaimMode::kWrite, "write"},
}};
constexpr std::array<Word<PluginType>, 2> kPluginTypeWords = {{
    {PluginType::kNode, "csi-node"},
    {PluginType::kController, "csi-controller"},
}};
constexpr std::array<Word<Claim::State>, 4> kClaimStates = {{
    {Claim::State::kTaken, "taken"},
    {Claim::State::kUnpublishing, "unpublishing"},
    {Claim::State::kNodeDetached, "node-detached"},
    {Claim::State::kControllerDetached, "controller-detached"},
}};
constexpr std::array<Word<Volume::State>, 3> kVolumeStates = {{
    {Volume::State::kCreating, "creating"},
    {Volume::State::kReady, "ready"},
    {Volume::State::kDeleting, "deleting"},
}};

template <typename Words, typename Value>
std::string_view WordOf(const Words& words, Value value) {
  for (const auto& [known, word] : words) {
    if (known == value) return word;
  }
  return "?";  // not reached: every enumerator has a row
}

template <typename Value, std::size_t n>
absl::StatusOr<Value> Parse(const std::array<Word<Value>, n>& words, std::string_view what, std::string_view text) {
  std::string allowed;
  for (const auto& [value, word] : words) {
    if (word == text) return value;
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", word);
  }
  return InvalidArgument(fmt::format("{} is not a valid {}: give one of {}", Quote(text), what, allowed));
}

}  // namespace

std::string_view ToString(AccessMode mode) { return WordOf(kAccessModes, mode); }
std::string_view ToString(Attachment attachment) { return WordOf(kAttachments, attachment); }
std::string_view ToString(ClaimMode mode) { return WordOf(kClaimModes, mode); }
std::string_view ToString(PluginType type) { return WordOf(kPluginTypeWords, type); }
std::string_view ToString(Claim::State state) { return WordOf(kClaimStates, state); }
std::string_view ToString(Volume::State state) { return WordOf(kVolumeStates, state); }

std::string ToString(const VolumeKey& key) {
  if (key.ns == VolumeKey().ns) return Quote(key.id);
  return fmt::format("{} in namespace {}", Quote(key.id), Quote(key.ns));
}

absl::StatusOr<AccessMode> ParseAccessMode(std::string_view word) { return Parse(kAccessModes, "access mode", word); }
absl::StatusOr<Attachment> ParseAttachment(std::string_view word) {
  return Parse(kAttachments, "attachment mode", word);
}
absl::StatusOr<ClaimMode> ParseClaimMode(std::string_view word) { return Parse(kClaimModes, "claim mode", word); }

bool IsReader(AccessMode mode) {
  return mode == AccessMode::kSingleNodeReaderOnly || mode == AccessMode::kMultiNodeReaderOnly;
}

bool IsSingleNode(AccessMode mode) {
  switch (mode) {
    case AccessMode::kSingleNodeReaderOnly:
    case AccessMode::kSingleNodeWriter:
    case AccessMode::kSingleNodeSingleWriter:
    case AccessMode::kSingleNodeMultiWriter:
      return true;
    case AccessMode::kMultiNodeReaderOnly:
    case AccessMode::kMultiNodeSingleWriter:
    case AccessMode::kMultiNodeMultiWriter:
      return false;
  }
  return false;
}

absl::Status CheckPropagation(Propagation propagation, bool read_only) {
  if (propagation != Propagation::kShared || !read_only) return absl::OkStatus();
  return InvalidArgument(
      "propagation rshared (bidirectional) needs write access, and the mount is read-only: give rslave");
}

absl::StatusOr<Propagation> ParsePropagationFor(std::string_view word, bool read_only) {
  if (word.empty()) return Propagation::kPrivate;
  MOORING_ASSIGN_OR_RETURN(const Propagation propagation, ParsePropagation(word));
  if (propagation == Propagation::kInherit) {
    return InvalidArgument("propagation 'inherit' is not allowed here: give private, rslave or rshared");
  }
  MOORING_RETURN_IF_ERROR(CheckPropagation(propagation, read_only));
  return propagation;
}

}  // namespace mooring::manager

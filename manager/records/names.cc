#include "manager/records/names.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/propagation.h"

namespace mooring::manager {
namespace {

template <typename Value>
using Named = std::pair<Value, std::string_view>;

constexpr std::array<Named<AccessMode>, 7> kAccessModes = {{
    {AccessMode::kSingleNodeReaderOnly, "single-node-reader-only"},
    {AccessMode::kSingleNodeWriter, "single-node-writer"},
    {AccessMode::kSingleNodeSingleWriter, "single-node-single-writer"},
    {AccessMode::kSingleNodeMultiWriter, "single-node-multi-writer"},
    {AccessMode::kMultiNodeReaderOnly, "multi-node-reader-only"},
    {AccessMode::kMultiNodeSingleWriter, "multi-node-single-writer"},
    {AccessMode::kMultiNodeMultiWriter, "multi-node-multi-writer"},
}};
constexpr std::array<Named<AttachmentMode>, 2> kAttachmentModes = {{
    {AttachmentMode::kFileSystem, "file-system"},
    {AttachmentMode::kBlockDevice, "block-device"},
}};
constexpr std::array<Named<ClaimMode>, 2> kClaimModes = {{
    {ClaimMode::kRead, "read"},
    {ClaimMode::kWrite, "write"},
}};
constexpr std::array<Named<Claim::State>, 4> kClaimStates = {{
    {Claim::State::kTaken, "taken"},
    {Claim::State::kUnmountFailed, "unmount-failed"},
    {Claim::State::kNodeDetached, "node-detached"},
    {Claim::State::kControllerDetached, "controller-detached"},
}};
constexpr std::array<Named<Volume::State>, 3> kVolumeStates = {{
    {Volume::State::kCreating, "creating"},
    {Volume::State::kReady, "ready"},
    {Volume::State::kDeleting, "deleting"},
}};
constexpr std::array<Named<AttachmentRecord::Phase>, 3> kPhases = {{
    {AttachmentRecord::Phase::kIntent, "intent"},
    {AttachmentRecord::Phase::kMounted, "mounted"},
    {AttachmentRecord::Phase::kUnmounting, "unmounting"},
}};

template <typename Names, typename Value>
std::string_view NameOf(const Names& names, Value value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "?";  // not reached: every enumerator has a row
}

}  // namespace

std::string_view ToString(AccessMode mode) { return NameOf(kAccessModes, mode); }
std::string_view ToString(AttachmentMode attachment) { return NameOf(kAttachmentModes, attachment); }
std::string_view ToString(ClaimMode mode) { return NameOf(kClaimModes, mode); }
std::string_view ToString(Claim::State state) { return NameOf(kClaimStates, state); }
std::string_view ToString(Volume::State state) { return NameOf(kVolumeStates, state); }
std::string_view ToString(AttachmentRecord::Phase phase) { return NameOf(kPhases, phase); }

std::string ToString(const VolumeKey& key) {
  if (key.ns == VolumeKey().ns) return Quote(key.id);
  return fmt::format("{} in namespace {}", Quote(key.id), Quote(key.ns));
}

absl::StatusOr<AccessMode> ParseAccessMode(std::string_view text) {
  std::string allowed;
  for (const auto& [mode, name] : kAccessModes) {
    if (name == text) return mode;
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", name);
  }
  return InvalidArgument("{} is not a valid access mode: give one of {}", Quote(text), allowed);
}

bool IsReader(AccessMode mode) {
  return mode == AccessMode::kSingleNodeReaderOnly || mode == AccessMode::kMultiNodeReaderOnly;
}

bool IsSingleNode(AccessMode mode) { return ToString(mode).starts_with("single-node"); }

absl::Status CheckPropagation(Propagation propagation, bool read_only) {
  if (propagation != Propagation::kShared || !read_only) return absl::OkStatus();
  return InvalidArgument(
      "propagation rshared (bidirectional) needs write access, and the mount is read-only: give rslave");
}

absl::StatusOr<Propagation> ParsePropagationFor(std::string_view name, bool read_only) {
  if (name.empty()) return Propagation::kPrivate;
  MOORING_ASSIGN_OR_RETURN(const Propagation propagation, ParsePropagation(name));
  if (propagation == Propagation::kInherit) {
    return InvalidArgument("propagation 'inherit' is not allowed here: give private, rslave or rshared");
  }
  MOORING_RETURN_IF_ERROR(CheckPropagation(propagation, read_only));
  return propagation;
}

}  // namespace mooring::manager

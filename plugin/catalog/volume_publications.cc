#include "plugin/catalog/volume_publications.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "plugin/model/volume_id.h"

namespace mooring {
namespace {

PublicationRecord ToRecord(const ControllerPublishSpec& spec) {
  return {.volume_id = spec.volume_id,
          .node_id = spec.node_id,
          .access_type = ToString(spec.capability.access_type),
          .capability = ToString(spec.capability),
          .read_only = spec.read_only};
}

std::string HowPublished(const PublicationRecord& record) {
  return fmt::format("{}, {}", record.access_type, record.read_only ? "read-only" : "read-write");
}

// "mount MULTI_NODE_SINGLE_WRITER, read-write"
std::string AccessText(const PublicationRecord& record) {
  const std::size_t mode_end = record.capability.find(' ', record.access_type.size() + 1);
  return fmt::format("{}, {}", record.capability.substr(0, mode_end), record.read_only ? "read-only" : "read-write");
}

// The capability of a record begins with the access type and the mode.
bool HasMode(const PublicationRecord& record, AccessMode mode) {
  return record.capability.starts_with(record.access_type + " " + ToString(mode));
}

bool TakesManyNodes(const PublicationRecord& record) {
  return HasMode(record, AccessMode::kMultiNodeReaderOnly) || HasMode(record, AccessMode::kMultiNodeSingleWriter) ||
         HasMode(record, AccessMode::kMultiNodeMultiWriter);
}

bool IsForSeveral(const PublicationRecord& record) {
  return TakesManyNodes(record) || HasMode(record, AccessMode::kSingleNodeMultiWriter);
}

bool Writes(const PublicationRecord& record) {
  return !record.read_only && !HasMode(record, AccessMode::kMultiNodeReaderOnly);
}

// Whether a volume that many nodes can use may go to a second node.
absl::Status CheckBesides(const PublicationRecord& there, const PublicationRecord& wanted, std::string_view how,
                          std::string_view end) {
  const bool one_writer =
      HasMode(there, AccessMode::kMultiNodeSingleWriter) || HasMode(wanted, AccessMode::kMultiNodeSingleWriter);
  const bool too_many = one_writer && Writes(there) && Writes(wanted);
  if (TakesManyNodes(there) && TakesManyNodes(wanted) && !too_many) return absl::OkStatus();
  return FailedPrecondition(
      "volume {} is {} node {} with {}, which leaves no room for {} on node {}: {}, or ask for another access mode on "
      "both",
      Quote(wanted.volume_id), how, Quote(there.node_id), AccessText(there), AccessText(wanted), Quote(wanted.node_id),
      end);
}

constexpr std::string_view kEndUse =
    "unpublish and unstage it there (if that host is gone for good: docs/backends.md, \"A host that is gone\")";

// A node that uses a volume in two ways needs the room of both. The mode that leaves others the least room wins.
PublicationRecord Joined(const PublicationRecord& there, PublicationRecord wanted) {
  constexpr std::array kLeast = {AccessMode::kMultiNodeReaderOnly, AccessMode::kMultiNodeMultiWriter,
                                 AccessMode::kMultiNodeSingleWriter};
  const auto room = [&](const PublicationRecord& record) {
    return std::find_if(kLeast.begin(), kLeast.end(), [&](AccessMode mode) { return HasMode(record, mode); });
  };
  const bool read_only = !Writes(there) && !Writes(wanted);
  if (room(there) > room(wanted)) wanted.capability = there.capability;
  wanted.read_only = read_only;
  return wanted;
}

// Whether a repeated publish agrees with the existing one. Access modes and mount flags may differ, because Nomad
// publishes a volume once for each way in which a group of tasks uses it. In multi-writer modes it publishes read-only
// and read-write at the same time.
absl::Status CheckCompatible(const PublicationRecord& there, const PublicationRecord& wanted) {
  if (there.node_id != wanted.node_id) {
    return FailedPrecondition(
        "volume {} is published to node {}: unpublish it there (ControllerUnpublishVolume) before it goes to node {}",
        Quote(wanted.volume_id), Quote(there.node_id), Quote(wanted.node_id));
  }
  const bool mixes = IsForSeveral(there) && IsForSeveral(wanted);
  if (there.access_type == wanted.access_type && (mixes || there.read_only == wanted.read_only))
    return absl::OkStatus();
  return AlreadyExists("volume {} is published to node {} already, as {}; now {} is asked for: unpublish it first",
                       Quote(wanted.volume_id), Quote(wanted.node_id), HowPublished(there), HowPublished(wanted));
}

}  // namespace

absl::Status VolumePublications::CheckAccess(const VolumeRecord& record, const Capability& capability) const {
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  if (capability.access_type == AccessType::kMount || pool->traits().block) return absl::OkStatus();
  return InvalidArgument(NoBlockAccess(pool->name, pool->kind));
}

// How many volumes may be published to the node of the call. 0: no limit.
absl::StatusOr<std::int64_t> VolumePublications::MostVolumes(const ControllerPublishSpec& spec) {
  if (!TagOfId(spec.volume_id).empty()) {
    MOORING_ASSIGN_OR_RETURN(const auto node, nodes_.Find(spec.volume_id, spec.node_id));
    if (node) return node->max_volumes;
    return NotFound(
        "node {} is not known in the shared pool of volume {}: start mooring-plugin with that pool on the node",
        Quote(spec.node_id), Quote(spec.volume_id));
  }
  if (spec.node_id == node_id_) return max_volumes_;
  return NotFound("node {} is not known here: volume {} lives on node {} and can be published only there",
                  Quote(spec.node_id), Quote(spec.volume_id), Quote(node_id_));
}

absl::Status VolumePublications::CheckDetached(const std::string& id, const std::string& node) {
  if (TagOfId(id).empty() || PoolForManyNodes(id) != nullptr) return absl::OkStatus();  // SharedNodes::Uses stays
  MOORING_ASSIGN_OR_RETURN(const std::optional<VolumeRecord> record, store_.FindById(id));
  if (!record) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, *record));
  absl::Status unused = Unexpected(pool->backend->CheckUnused(id));
  if (!absl::IsFailedPrecondition(unused)) return unused;
  const std::string where = node.empty() ? "a node that no record names" : "node " + Quote(node);
  return FailedPrecondition("volume {} is still attached on {}: {}", Quote(id), where, Message(unused));
}

absl::Status VolumePublications::Publish(const ControllerPublishSpec& spec, const IsUsedHere& is_used_here,
                                         const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, lookup_.Lock(spec.volume_id, call));
  MOORING_ASSIGN_OR_RETURN(const VolumeRecord record, lookup_.FindReady(spec.volume_id));
  MOORING_RETURN_IF_ERROR(CheckAccess(record, spec.capability));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolOf(pools_, record));
  MOORING_ASSIGN_OR_RETURN(const std::int64_t max_volumes, MostVolumes(spec));
  PublicationRecord wanted = ToRecord(spec);
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> there, store_.Publications(spec.volume_id));
  for (const PublicationRecord& publication : there) {
    if (pool->traits().many_nodes && publication.node_id != wanted.node_id) {
      MOORING_RETURN_IF_ERROR(
          CheckBesides(publication, wanted, "published to", "unpublish it there (ControllerUnpublishVolume)"));
      continue;
    }
    MOORING_RETURN_IF_ERROR(CheckCompatible(publication, wanted));
    if (publication.capability == wanted.capability && publication.read_only == wanted.read_only)
      return absl::OkStatus();
    wanted.read_only = wanted.read_only && publication.read_only;  // read-write wins over read-only
  }
  if (pool->traits().many_nodes) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> uses, nodes_.Uses(spec.volume_id));
    MOORING_RETURN_IF_ERROR(CheckBesidesUses(uses, wanted));
  }
  const bool is_back = spec.node_id == node_id_ && is_used_here && is_used_here(spec.volume_id);  // its record was lost
  if (there.empty() && !is_back) MOORING_RETURN_IF_ERROR(CheckDetached(spec.volume_id, ""));
  // A volume that is already published to the node keeps its place.
  const bool is_there = std::any_of(there.begin(), there.end(), [&](const PublicationRecord& publication) {
    return publication.node_id == spec.node_id;
  });
  const std::int64_t most = is_there ? 0 : max_volumes;
  MOORING_ASSIGN_OR_RETURN(const bool done, store_.PutPublication(wanted, most));
  if (done) return absl::OkStatus();
  return ResourceExhausted(
      "node {} has {} volumes published to it, as many as --max-volumes allows: unpublish one first, or raise the "
      "limit",
      Quote(spec.node_id), max_volumes);
}

absl::Status VolumePublications::Unpublish(const ControllerUnpublishSpec& spec, const Call& call) {
  if (!IsVolumeId(spec.volume_id)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const KeyedLocks::Hold hold, lookup_.Lock(spec.volume_id, call));
  MOORING_RETURN_IF_ERROR(CheckMayUnpublish(spec));
  return store_.DeletePublications(spec.volume_id, spec.node_id);
}

// A repeated call for a node that lost the volume to another one says nothing about that one.
absl::Status VolumePublications::CheckMayUnpublish(const ControllerUnpublishSpec& spec) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> there, store_.Publications(spec.volume_id));
  const auto named = std::find_if(there.begin(), there.end(), [&](const PublicationRecord& publication) {
    return spec.node_id.empty() || publication.node_id == spec.node_id;
  });
  if (named != there.end()) return CheckDetached(spec.volume_id, named->node_id);
  return there.empty() ? CheckDetached(spec.volume_id, "") : absl::OkStatus();
}

absl::Status VolumePublications::CheckNotElsewhere(const std::string& id) {
  if (TagOfId(id).empty()) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> there, store_.Publications(id));
  for (const PublicationRecord& publication : there) {
    if (publication.node_id == node_id_) return absl::OkStatus();
  }
  if (there.empty()) return absl::OkStatus();  // the orchestrator publishes no volumes, or the records are lost
  return FailedPrecondition(
      "volume {} is published to node {}, and this is node {}: publish it to this node first "
      "(ControllerPublishVolume)",
      Quote(id), Quote(there.front().node_id), Quote(node_id_));
}

const Pool* VolumePublications::PoolForManyNodes(const std::string& id) const {
  const std::string_view tag = TagOfId(id);
  const auto found = std::find_if(pools_.all().begin(), pools_.all().end(), [tag](const Pool& pool) {
    return pool.shared() && pool.tag == tag && pool.traits().many_nodes;
  });
  return found == pools_.all().end() ? nullptr : &*found;
}

absl::Status VolumePublications::CheckBesidesUses(const std::vector<PublicationRecord>& uses,
                                                  const PublicationRecord& wanted) {
  for (const PublicationRecord& use : uses) {
    if (use.node_id != wanted.node_id) MOORING_RETURN_IF_ERROR(CheckBesides(use, wanted, "in use on", kEndUse));
  }
  return absl::OkStatus();
}

absl::Status VolumePublications::BeginUse(const std::string& id, const Capability& capability, bool read_only) {
  MOORING_RETURN_IF_ERROR(CheckNotElsewhere(id));
  if (PoolForManyNodes(id) == nullptr) return absl::OkStatus();
  PublicationRecord wanted =
      ToRecord({.volume_id = id, .node_id = node_id_, .capability = capability, .read_only = read_only});
  wanted.capability = wanted.access_type + " " + ToString(capability.mode);
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> uses, nodes_.Uses(id));
  const auto own = std::find_if(uses.begin(), uses.end(), [&](const auto& use) { return use.node_id == node_id_; });
  if (own != uses.end()) wanted = Joined(*own, std::move(wanted));
  MOORING_RETURN_IF_ERROR(CheckBesidesUses(uses, wanted));
  const bool is_there = own != uses.end() && own->capability == wanted.capability && own->read_only == wanted.read_only;
  return is_there ? absl::OkStatus() : nodes_.PutUse(wanted);
}

absl::Status VolumePublications::EndUse(const std::string& id) {
  const Pool* const pool = PoolForManyNodes(id);
  if (pool == nullptr) return absl::OkStatus();
  const absl::Status unused = pool->backend->CheckUnused(id);
  if (absl::IsFailedPrecondition(unused)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(unused);
  return nodes_.DeleteUse(id, node_id_);
}

void VolumePublications::EndUseLater(const std::string& id) {
  const Pool* const pool = PoolForManyNodes(id);
  if (pool != nullptr && pool->availability != nullptr) pool->availability->LeaveWork();
}

absl::Status VolumePublications::EndStaleUses(const std::string& pool) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> used, nodes_.UsedBy(node_id_, pool));
  absl::Status ended;
  for (const std::string& id : used) {
    const auto hold = lookup_.Lock(id, {std::chrono::steady_clock::now()});
    ended.Update(hold.ok() ? EndUse(id) : hold.status());
  }
  return ended;
}

// A use of this node may have ended without its record. Only a plugin that sees the mounts of the node can know.
absl::Status VolumePublications::CheckNoUses(const std::string& id) {
  const Pool* const pool = PoolForManyNodes(id);
  if (pool == nullptr) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> uses, nodes_.Uses(id));
  for (const PublicationRecord& use : uses) {
    if (serves_node_ && use.node_id == node_id_ && pool->backend->CheckUnused(id).ok()) continue;
    return FailedPrecondition("volume {} is in use on node {}: {}", Quote(id), Quote(use.node_id), kEndUse);
  }
  return absl::OkStatus();
}

absl::Status VolumePublications::CheckNone(const std::string& id) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<PublicationRecord> publications, store_.Publications(id));
  if (publications.empty()) return CheckNoUses(id);
  std::string nodes;
  for (const PublicationRecord& publication : publications) {
    nodes += (nodes.empty() ? "" : ", ") + Quote(publication.node_id);
  }
  return FailedPrecondition("volume {} is published to node {}: unpublish it first (ControllerUnpublishVolume)",
                            Quote(id), nodes);
}

// Some orchestrators never unpublish a volume whose plugin was down.
std::string VolumePublications::CommandsToUnpublish(const std::string& id) {
  const auto publications = store_.Publications(id);
  if (!publications.ok()) return "";
  std::string commands;
  for (const PublicationRecord& publication : *publications) {
    commands += fmt::format("{}mooring csi controller-unpublish {} --node {}", commands.empty() ? "" : "; ", id,
                            ShellQuote(publication.node_id));
  }
  return commands;
}

}  // namespace mooring

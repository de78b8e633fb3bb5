#include "plugin/api/controller_requests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/id_mappings.h"
#include "mounter/propagation.h"
#include "plugin/api/export_words.h"
#include "plugin/api/request_fields.h"
#include "plugin/model/fs_types.h"
#include "plugin/model/secrets.h"

namespace mooring {
namespace {

using csi::v1::VolumeCapability;
using Parameters = google::protobuf::Map<std::string, std::string>;
using Capabilities = google::protobuf::RepeatedPtrField<VolumeCapability>;

constexpr std::string_view kKubernetesFsType = "csi.storage.k8s.io/fstype";

// Combines the filesystems that a request names: they must be the same. Empty: not named.
absl::Status Agree(std::string& chosen, const std::string& fs_type, std::string_view where) {
  if (fs_type.empty()) return absl::OkStatus();
  if (!IsSupportedFsType(fs_type)) {
    return InvalidArgument("{} {} is not one of {}", where, Quote(fs_type), SupportedFsTypes());
  }
  if (!chosen.empty() && chosen != fs_type) {
    return InvalidArgument("{} {} contradicts {}, which the request also asks for: name one filesystem", where,
                           Quote(fs_type), Quote(chosen));
  }
  chosen = fs_type;
  return absl::OkStatus();
}

// The properties of the volume in a request. Empty: not in the request.
struct Asked {
  std::string fs_type;
  std::optional<Propagation> propagation;
  std::string pool;
  std::string device;
  bool allows_conversion = false;
  VolumeMaking making;
  std::string idmap;
  std::optional<bool> encrypted;
  ExportWords words;
};

// Parameters of other drivers, which choose an encryption. They are refused, so that nobody relies on them.
bool AsksForEncryption(std::string_view key) {
  std::string lower(key);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("encrypt") != std::string::npos || lower.find("luks") != std::string::npos ||
         lower.find("kms") != std::string::npos;
}

// Some orchestrators show only this text.
absl::StatusOr<Asked> ParseParameters(const Parameters& unordered) {
  const std::map<std::string, std::string> parameters(unordered.begin(), unordered.end());
  Asked asked;
  MOORING_ASSIGN_OR_RETURN(asked.propagation, FindPropagation(unordered, "parameter propagation"));
  for (const auto& [key, value] : parameters) {
    MOORING_ASSIGN_OR_RETURN(const bool is_making, SetMaking(key, value, asked.making));
    if (is_making) continue;
    MOORING_ASSIGN_OR_RETURN(const bool is_word, SetExportWord(key, value, asked.words, asked.making));
    if (is_word) continue;
    if (key == kFsTypeKey || key == kKubernetesFsType) {
      MOORING_RETURN_IF_ERROR(Agree(asked.fs_type, value, fmt::format("parameter {}", key)));
    } else if (key == kPoolKey) {
      asked.pool = value;
    } else if (key == kDeviceKey) {
      asked.device = value;
    } else if (key == kConversionKey) {
      MOORING_ASSIGN_OR_RETURN(asked.allows_conversion, ParseTruth(key, value));
    } else if (key == kIdMapKey) {
      asked.idmap = value;
      if (!value.empty()) MOORING_RETURN_IF_ERROR(Annotate(CheckIdMapOfTasks(value), "parameter"));
    } else if (key == kEncryptedKey) {
      MOORING_ASSIGN_OR_RETURN(asked.encrypted, ParseTruth(key, value));
    } else if (AsksForEncryption(key)) {
      return InvalidArgument(
          "parameter {}: this driver encrypts the volumes of pools with backend luks: leave it out, name such a pool "
          "({}), and add {}=true to be sure of it",
          Quote(key), kPoolKey, kEncryptedKey);
    } else if (key != kPropagationKey && !std::string_view(key).starts_with(kKubernetesPrefix)) {
      return InvalidArgument("parameter {} is unknown: this driver knows {} ({}), {}, {}, {}, {}, {}, {}, {}",
                             Quote(key), kFsTypeKey, SupportedFsTypes(), kPoolKey, kDeviceKey, kPropagationKey,
                             kIdMapKey, kEncryptedKey, kConversionKey, MakingKeys());
    }
  }
  return asked;
}

// The filesystem, from any field of the request.
absl::StatusOr<Asked> ParseAsked(const Parameters& parameters, const Capabilities& capabilities) {
  MOORING_ASSIGN_OR_RETURN(Asked asked, ParseParameters(parameters));
  for (const VolumeCapability& capability : capabilities) {
    MOORING_RETURN_IF_ERROR(Agree(asked.fs_type, capability.mount().fs_type(), "fs_type of a volume capability"));
  }
  return asked;
}

// The pool, if it can make such a volume.
absl::StatusOr<const Pool*> PoolFor(const Asked& asked, const Pools& pools, std::string_view otherwise = kDefaultPool) {
  MOORING_ASSIGN_OR_RETURN(const std::string name, PoolOfExport(asked.words, asked.pool, pools));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, pools.Find(name.empty() ? otherwise : name));
  if (!asked.device.empty() && !pool->traits().whole_devices) {
    return InvalidArgument("parameter {} {}: pool {} has the backend {}, where there are none to choose from",
                           kDeviceKey, Quote(asked.device), pool->name, ToString(pool->kind));
  }
  if (!asked.idmap.empty() && !pool->traits().maps_ids) {
    return InvalidArgument("parameter {}: pool {} has the backend {}, on which Linux maps no ids: leave it out",
                           kIdMapKey, pool->name, ToString(pool->kind));
  }
  const std::vector<std::string>& choices = pool->traits().fs_types;
  const bool is_other = pool->traits().whole_devices && IsOtherFsType(asked.fs_type);
  if (!is_other && !asked.fs_type.empty() &&
      std::find(choices.begin(), choices.end(), asked.fs_type) == choices.end()) {
    return InvalidArgument(
        "filesystem {} is asked for, and pool {} has the backend {}, which {}", Quote(asked.fs_type), pool->name,
        ToString(pool->kind),
        choices.empty() ? "leaves no choice: name none" : fmt::format("has {}", fmt::join(choices, ", ")));
  }
  return pool;
}

std::string OrElse(const std::string& fs_type, std::string_view otherwise) {
  return fs_type.empty() ? std::string(otherwise) : fs_type;
}

struct AccessTypes {
  bool mount = false;
  bool block = false;
  std::uint64_t Minimum(std::string_view fs_type) const {
    return MinimumBytes(block && !mount ? AccessType::kBlock : AccessType::kMount, fs_type);
  }
};

absl::StatusOr<AccessTypes> ParseAccessTypes(const Capabilities& capabilities, const Pool& pool,
                                             std::string_view fs_type, std::optional<Propagation> propagation) {
  AccessTypes types;
  for (const VolumeCapability& capability : capabilities) {
    MOORING_ASSIGN_OR_RETURN(const Capability parsed, ParseCapability(capability, fs_type));
    MOORING_RETURN_IF_ERROR(CheckMayShare(propagation, parsed));
    MOORING_RETURN_IF_ERROR(CheckOptionsOfPool(parsed.options, pool));
    (parsed.access_type == AccessType::kMount ? types.mount : types.block) = true;
  }
  if (types.block && !pool.traits().block) return InvalidArgument(NoBlockAccess(pool.name, pool.kind));
  return types;
}

Segments ToSegments(const csi::v1::Topology& topology) {
  return Segments(topology.segments().begin(), topology.segments().end());
}

// Whether this node is in one of `requisite`. Without `requisite`, `preferred` counts.
std::vector<Segments> ParseTopologies(const csi::v1::TopologyRequirement& wanted) {
  std::vector<Segments> topologies;
  for (const auto& topology : wanted.requisite_size() > 0 ? wanted.requisite() : wanted.preferred()) {
    topologies.push_back(ToSegments(topology));
  }
  return topologies;
}

absl::StatusOr<ContentSource> ParseSource(const csi::v1::CreateVolumeRequest& request) {
  if (!request.has_volume_content_source()) return ContentSource();
  ContentSource source = ContentSourceOf(request);
  if (!source.exists()) return InvalidArgument("volume_content_source: neither snapshot nor volume is set");
  if (!source.id.empty()) return source;
  return InvalidArgument("volume_content_source: {}_id is missing",
                         source.kind == ContentSource::Kind::kSnapshot ? "snapshot" : "volume");
}

absl::StatusOr<TuningChange> ParseMutable(const Parameters& parameters) {
  return ParseTuning(std::map<std::string, std::string>(parameters.begin(), parameters.end()));
}

absl::Status CheckCapabilitiesThere(const Capabilities& capabilities) {
  if (!capabilities.empty()) return absl::OkStatus();
  return InvalidArgument("volume_capabilities is missing: say how the volume will be used");
}

// A volume for block access only gets no filesystem, and so no root directory.
absl::Status CheckMakingOf(const CreateVolumeSpec& spec, std::string_view fs_type) {
  if (!spec.idmap.empty() && spec.block_only) {
    return InvalidArgument("parameter {}: only block access is asked for, which has no owners: leave it out",
                           kIdMapKey);
  }
  if (spec.making == VolumeMaking()) return absl::OkStatus();
  if (IsOtherFsType(fs_type)) {
    return InvalidArgument("parameters {}: a {} stays as it is: leave them out", ToText(spec.making), fs_type);
  }
  if (!spec.block_only) return CheckMaking(spec.making, fs_type);
  return InvalidArgument("parameters {}: they are for a filesystem, and only block access is asked for: leave them out",
                         ToText(spec.making));
}

bool IsComplete(const VolumeCapability& capability) {
  return capability.access_type_case() != VolumeCapability::ACCESS_TYPE_NOT_SET &&
         capability.access_mode().mode() != VolumeCapability::AccessMode::UNKNOWN;
}

}  // namespace

absl::StatusOr<std::optional<Propagation>> FindPropagation(const Parameters& map, std::string_view where) {
  const auto found = map.find(std::string(kPropagationKey));
  if (found == map.end() || found->second.empty()) return std::optional<Propagation>();
  const absl::StatusOr<Propagation> parsed = ParsePropagation(found->second);
  if (!parsed.ok()) return Annotate(parsed.status(), where);
  return std::optional<Propagation>(*parsed);
}

absl::StatusOr<std::string> FindPassphrase(const Parameters& secrets) {
  const auto found = secrets.find(std::string(kPassphraseSecret));
  if (found == secrets.end()) return std::string();
  if (!found->second.empty() && found->second.size() <= kLongestPassphrase) return found->second;
  return InvalidArgument("secret {} has {} bytes: a passphrase has 1 to {}", kPassphraseSecret, found->second.size(),
                         kLongestPassphrase);
}

absl::Status CheckMayShare(std::optional<Propagation> propagation, const Capability& capability, bool read_only) {
  if (propagation != Propagation::kShared || !IsReadOnly(capability, read_only)) return absl::OkStatus();
  const bool reader = IsReaderOnly(capability.mode);
  return InvalidArgument(
      "propagation rshared needs write access, and {} has none: take rslave or private, or write access",
      reader      ? "access mode " + ToString(capability.mode)
      : read_only ? "readonly"
                  : "mount flag ro");
}

ContentSource ContentSourceOf(const csi::v1::CreateVolumeRequest& request) {
  using Source = csi::v1::VolumeContentSource;
  const Source& source = request.volume_content_source();
  switch (source.type_case()) {
    case Source::kSnapshot:
      return {ContentSource::Kind::kSnapshot, source.snapshot().snapshot_id()};
    case Source::kVolume:
      return {ContentSource::Kind::kVolume, source.volume().volume_id()};
    case Source::TYPE_NOT_SET:
      return {};
  }
  return {};
}

absl::StatusOr<SizeRange> ParseRange(const csi::v1::CapacityRange& range) {
  if (range.required_bytes() < 0 || range.limit_bytes() < 0) {
    return InvalidArgument("capacity_range: required_bytes {} and limit_bytes {} must not be negative",
                           range.required_bytes(), range.limit_bytes());
  }
  const SizeRange parsed = {.required = static_cast<std::uint64_t>(range.required_bytes()),
                            .limit = static_cast<std::uint64_t>(range.limit_bytes())};
  if (parsed.limit != 0 && parsed.required > parsed.limit) {
    return InvalidArgument("capacity_range: required_bytes {} is more than limit_bytes {}", parsed.required,
                           parsed.limit);
  }
  return parsed;
}

absl::StatusOr<CreateVolumeSpec> ParseCreateVolume(const csi::v1::CreateVolumeRequest& request, const Pools& pools,
                                                   const SourceFacts& source) {
  MOORING_RETURN_IF_ERROR(CheckName(request.name(), "volume"));
  MOORING_RETURN_IF_ERROR(CheckCapabilitiesThere(request.volume_capabilities()));
  CreateVolumeSpec spec;
  spec.name = request.name();
  MOORING_ASSIGN_OR_RETURN(const Asked asked, ParseAsked(request.parameters(), request.volume_capabilities()));
  MOORING_ASSIGN_OR_RETURN(spec.source, ParseSource(request));
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, PoolFor(asked, pools, OrElse(source.pool, kDefaultPool)));
  const std::string fs_type = OrElse(asked.fs_type, OrElse(source.fs_type, DefaultFsTypeOf(pool->kind)));
  // A copy takes properties that are not in the request from its source.
  const bool names_export = !asked.words.server.empty() || !asked.words.share.empty();
  spec.pool = spec.source.exists() && !names_export ? asked.pool : pool->name;
  spec.fs_type = spec.source.exists() ? asked.fs_type : fs_type;
  MOORING_ASSIGN_OR_RETURN(spec.passphrase, FindPassphrase(request.secrets()));
  spec.encrypted = asked.encrypted;
  // The pool of a copy is that of its source, which was perhaps not found.
  const bool knows_pool = !spec.pool.empty() || !source.pool.empty();
  if (knows_pool) MOORING_RETURN_IF_ERROR(CheckEncryption(spec.encrypted, !spec.passphrase.empty(), *pool, pools));
  spec.propagation = asked.propagation;
  spec.device = asked.device;
  if (!spec.source.exists() && IsOtherFsType(fs_type) && spec.device.empty()) {
    return InvalidArgument("filesystem {} is asked for, and is never made here: name a device that holds one ({})",
                           Quote(fs_type), kDeviceKey);
  }
  MOORING_ASSIGN_OR_RETURN(const AccessTypes types,
                           ParseAccessTypes(request.volume_capabilities(), *pool, fs_type, spec.propagation));
  spec.minimum_bytes = types.Minimum(fs_type);
  spec.is_mounted = types.mount;
  spec.is_raw = types.block;
  spec.allows_conversion = asked.allows_conversion;
  spec.block_only = types.block && !types.mount && !asked.allows_conversion;
  spec.making = asked.making;
  spec.idmap = asked.idmap;
  const std::map<std::string, std::string> parameters(request.parameters().begin(), request.parameters().end());
  MOORING_ASSIGN_OR_RETURN(spec.sub_dir, SubDirOf(asked.words, parameters));
  MOORING_RETURN_IF_ERROR(CheckMakingOf(spec, fs_type));
  MOORING_ASSIGN_OR_RETURN(spec.range, ParseRange(request.capacity_range()));
  spec.topologies = ParseTopologies(request.accessibility_requirements());
  MOORING_ASSIGN_OR_RETURN(spec.tuning, ParseMutable(request.mutable_parameters()));
  return spec;
}

absl::StatusOr<ControllerPublishSpec> ParseControllerPublish(const csi::v1::ControllerPublishVolumeRequest& request,
                                                             std::string_view fs_type) {
  ControllerPublishSpec spec;
  MOORING_ASSIGN_OR_RETURN(spec.volume_id, Required("volume_id", request.volume_id()));
  MOORING_ASSIGN_OR_RETURN(spec.node_id, Required("node_id", request.node_id()));
  if (!request.has_volume_capability()) return InvalidArgument("volume_capability is missing");
  MOORING_ASSIGN_OR_RETURN(spec.capability, ParseCapability(request.volume_capability(), fs_type));
  spec.read_only = request.readonly();
  return spec;
}

absl::StatusOr<ControllerUnpublishSpec> ParseControllerUnpublish(
    const csi::v1::ControllerUnpublishVolumeRequest& request) {
  MOORING_ASSIGN_OR_RETURN(std::string volume_id, Required("volume_id", request.volume_id()));
  return ControllerUnpublishSpec{.volume_id = std::move(volume_id), .node_id = request.node_id()};
}

absl::StatusOr<ControllerExpandSpec> ParseControllerExpand(const csi::v1::ControllerExpandVolumeRequest& request) {
  ControllerExpandSpec spec;
  MOORING_ASSIGN_OR_RETURN(spec.volume_id, Required("volume_id", request.volume_id()));
  if (!request.has_capacity_range())
    return InvalidArgument("capacity_range is missing: say how large the volume is to be");
  MOORING_ASSIGN_OR_RETURN(spec.range, ParseRange(request.capacity_range()));
  if (spec.range.required == 0 && spec.range.limit == 0) {
    return InvalidArgument("capacity_range is empty: say how large the volume is to be");
  }
  return spec;
}

absl::StatusOr<ModifySpec> ParseModify(const csi::v1::ControllerModifyVolumeRequest& request) {
  ModifySpec spec;
  MOORING_ASSIGN_OR_RETURN(spec.volume_id, Required("volume_id", request.volume_id()));
  if (request.mutable_parameters().empty()) {
    return InvalidArgument("mutable_parameters is missing: say what is to be changed");
  }
  MOORING_ASSIGN_OR_RETURN(spec.change, ParseMutable(request.mutable_parameters()));
  return spec;
}

absl::StatusOr<std::string> ParseValidate(const csi::v1::ValidateVolumeCapabilitiesRequest& request) {
  MOORING_ASSIGN_OR_RETURN(std::string volume_id, Required("volume_id", request.volume_id()));
  MOORING_RETURN_IF_ERROR(CheckCapabilitiesThere(request.volume_capabilities()));
  for (const VolumeCapability& capability : request.volume_capabilities()) {
    if (!IsComplete(capability)) {
      return InvalidArgument("volume_capabilities: each needs an access_type (mount or block) and an access_mode");
    }
  }
  return volume_id;
}

absl::Status CheckConfirmed(const VolumeInfo& volume, const csi::v1::ValidateVolumeCapabilitiesRequest& request,
                            const Pools& pools) {
  // The present values do not matter, because they can be changed to the requested ones.
  MOORING_ASSIGN_OR_RETURN(const TuningChange tuning, ParseMutable(request.mutable_parameters()));
  MOORING_RETURN_IF_ERROR(CheckPossible(tuning, TraitsOf(volume.kind)));
  MOORING_ASSIGN_OR_RETURN(const Asked asked, ParseAsked(request.parameters(), request.volume_capabilities()));
  if (!asked.pool.empty() && asked.pool != volume.pool) {
    return InvalidArgument("pool {} is asked for, and the volume lies in {}", Quote(asked.pool), volume.pool);
  }
  MOORING_ASSIGN_OR_RETURN(const Pool* const pool, pools.Find(volume.pool));
  MOORING_RETURN_IF_ERROR(CheckEncryption(asked.encrypted, false, *pool, pools));
  if (asked.propagation && asked.propagation != volume.propagation) {
    return InvalidArgument("propagation {} is asked for, and the volume was made with {}", ToString(*asked.propagation),
                           volume.propagation ? ToString(*volume.propagation) : "none");
  }
  if (asked.making != VolumeMaking() && asked.making != volume.tuning.making) {
    return InvalidArgument("{} is asked for, and the volume was made with {}", MakingText(asked.making),
                           MakingText(volume.tuning.making));
  }
  if (!asked.idmap.empty() && asked.idmap != volume.tuning.idmap) {
    return InvalidArgument("idmap {} is asked for, and the volume was made with {}", Quote(asked.idmap),
                           Quote(volume.tuning.idmap));
  }
  const std::string& name = asked.words.sub_dir;
  const bool is_known = !name.empty() && name.find('$') == std::string::npos;
  if (is_known && name != volume.tuning.sub_dir) {
    return InvalidArgument("subDir {} is asked for, and the volume was made with {}", Quote(name),
                           Quote(volume.tuning.sub_dir));
  }
  MOORING_ASSIGN_OR_RETURN(const auto in_context, FindPropagation(request.volume_context(), "volume_context"));
  // Keys that others have added to the context (as Kubernetes' sidecars do) are ignored.
  const auto context = request.volume_context().find(std::string(kFsTypeKey));
  const std::string& noted = context == request.volume_context().end() ? volume.fs_type : context->second;
  for (const std::string& fs_type : {OrElse(asked.fs_type, volume.fs_type), noted}) {
    if (fs_type == volume.fs_type) continue;
    return InvalidArgument("filesystem {} is asked for, and the volume was made for {}", Quote(fs_type),
                           volume.fs_type);
  }
  MOORING_ASSIGN_OR_RETURN(const AccessTypes types,
                           ParseAccessTypes(request.volume_capabilities(), *pool, volume.fs_type,
                                            in_context ? in_context : volume.propagation));
  if (types.mount && volume.block_only) {
    return InvalidArgument("mount access is asked for, and the volume was made for block access only");
  }
  const std::uint64_t least = types.Minimum(volume.fs_type);
  if (volume.bytes >= least) return absl::OkStatus();
  return InvalidArgument("the volume has {}, and such a use of it needs at least {}: expand it first",
                         SizeText(volume.bytes), SizeText(least));
}

absl::StatusOr<PageSpec> ParseListVolumes(const csi::v1::ListVolumesRequest& request) {
  return ParsePage(request.max_entries(), request.starting_token(), kListVolumes);
}

CapacitySpec ParseGetCapacity(const csi::v1::GetCapacityRequest& request, const Pools& pools) {
  const CapacitySpec impossible = {.possible = false, .minimum_bytes = 0, .topology = {}};
  const auto asked = ParseAsked(request.parameters(), request.volume_capabilities());
  if (!asked.ok()) return impossible;
  const absl::StatusOr<const Pool*> pool = PoolFor(*asked, pools);
  if (!pool.ok() || !CheckEncryption(asked->encrypted, false, **pool, pools).ok()) return impossible;
  const std::string fs_type = OrElse(asked->fs_type, DefaultFsTypeOf((*pool)->kind));
  const auto types = ParseAccessTypes(request.volume_capabilities(), **pool, fs_type, asked->propagation);
  if (!types.ok()) return impossible;
  return {.possible = true,
          .minimum_bytes = types->Minimum(fs_type),
          .topology = ToSegments(request.accessible_topology()),
          .pool = (*pool)->name};
}

}  // namespace mooring

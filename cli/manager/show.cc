#include "cli/manager/show.h"

#include <fmt/format.h>

#include <vector>

#include "base/text/size.h"

namespace mooring::cli::manager_area {
namespace {

// Mount flags may contain passwords, so this shows only their number.
std::string OptionsText(const v1::MountOptions& options) {
  const int flags = options.flags_size();
  const std::string count = flags == 0 ? "" : fmt::format("{} flag{}", flags, flags == 1 ? "" : "s");
  return options.fs_type() + (options.fs_type().empty() || count.empty() ? "" : ", ") + count;
}

std::string ExhaustedText(const v1::Volume& volume) {
  if (volume.exhausted_at_ms() == 0) return "";
  return fmt::format("on {} since {}: {}", volume.exhausted_host(), TimeText(volume.exhausted_at_ms()),
                     volume.exhausted_words());
}

}  // namespace

std::string CapacityText(std::uint64_t bytes) { return FormatKnownSize(static_cast<std::int64_t>(bytes)); }

std::string CapabilitiesText(const v1::Volume& volume) {
  std::vector<std::string> words;
  for (const v1::Capability& capability : volume.capabilities()) words.push_back(ToString(capability));
  return Join(words, ", ");
}

void AddVolume(const v1::Volume& volume, Details& details) {
  details.Add("id", volume.key().id());
  details.Add("namespace", volume.key().namespace_().empty() ? "default" : volume.key().namespace_());
  details.AddIf("name", volume.name());
  details.Add("plugin", volume.plugin());
  details.Add("external id", volume.external_id());
  details.Add("state", StateText(volume));
  const char* const owed = volume.node_expansion_owed() ? " (its mounts grow with the next attach)" : "";
  details.Add("capacity", CapacityText(volume.capacity_bytes()) + owed);
  details.Add("may be used", CapabilitiesText(volume));
  details.Add("in use", volume.has_in_use() ? ToString(volume.in_use()) : "no");
  details.AddIf("created", volume.created_at_ms() == 0 ? "" : TimeText(volume.created_at_ms()));
  details.AddIf("exhausted", ExhaustedText(volume));
  details.AddIf("mount options", OptionsText(volume.mount_options()));
  details.AddIf("parameters", ToString(volume.parameters()));
  details.AddIf("context", ToString(volume.context()));
  for (const v1::Topology& topology : volume.topologies()) details.Add("topology", ToString(topology.segments()));
  details.AddIf("from snapshot", volume.snapshot_id());
  details.AddIf("copy of", volume.clone_id());
  details.AddIf("secrets", volume.has_secrets() ? "kept" : "");
}

std::string VolumeText(const v1::Volume& volume) {
  Details details;
  AddVolume(volume, details);
  return details.ToString();
}

std::string StateText(const v1::Volume& volume) {
  if (volume.state() == v1::Volume::CREATING) return "being created";
  if (volume.state() == v1::Volume::DELETING) return "being deleted";
  return "ready";
}

std::string StateText(const v1::Claim& claim) { return (claim.past() ? "past, " : "") + ToString(claim.state()); }

std::string StateText(const v1::Attachment& attachment) {
  if (attachment.phase() == v1::Attachment::MOUNTED) return "mounted";
  if (attachment.phase() == v1::Attachment::UNMOUNTING) return "being detached";
  return "being attached";
}

}  // namespace mooring::cli::manager_area

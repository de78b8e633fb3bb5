// Records of the manager as text for people.
#pragma once

#include <string>

#include "cli/manager/parse/value_text.h"
#include "cli/output/table.h"

namespace mooring::cli::manager_area {

void AddVolume(const v1::Volume& volume, Details& details);
std::string VolumeText(const v1::Volume& volume);
std::string CapabilitiesText(const v1::Volume& volume);  // the access modes that the volume allows
std::string CapacityText(std::uint64_t bytes);           // "1.0 GiB (1073741824)"; "unknown" for 0

std::string StateText(const v1::Volume& volume);          // "ready", "being deleted"
std::string StateText(const v1::Claim& claim);            // "taken", "past, node-detached"
std::string StateText(const v1::Attachment& attachment);  // "mounted", "not mounted yet", "being detached"

template <typename Claims>
std::string ClaimTable(const Claims& claims) {
  Table table({"VOLUME", "ALLOCATION", "MODE", "ACCESS", "NODE", "STATE", "SINCE", "PROBLEM"});
  for (const v1::Claim& claim : claims) {
    table.Add({ToString(claim.volume()), claim.allocation(), ToString(claim.mode()), ToString(claim.capability()),
               claim.node(), StateText(claim), TimeText(claim.taken_at_ms()), claim.problem()});
  }
  return table.ToString();
}

template <typename Attachments>
std::string AttachmentTable(const Attachments& attachments) {
  Table table({"VOLUME", "ALLOCATION", "NAME", "AT", "MODE", "PROPAGATION", "STATE", "PROBLEM"});
  for (const v1::Attachment& attachment : attachments) {
    const std::string& at = attachment.attach_path().empty() ? attachment.source() : attachment.attach_path();
    const std::string mode = ToString(attachment.mode()) + (attachment.read_only() ? ", read-only" : "");
    table.Add({ToString(attachment.volume()), attachment.allocation(), attachment.request(), at, mode,
               ToString(attachment.propagation()), StateText(attachment), attachment.problem()});
  }
  return table.ToString();
}

}  // namespace mooring::cli::manager_area

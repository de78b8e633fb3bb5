// Values of proto/manager.proto as words of the command line, and as text for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/flags/flag_values.h"
#include "manager.pb.h"

namespace mooring::cli::manager_area {

namespace v1 = ::mooring::manager::v1;

using cli::ToString;  // of maps

// INVALID_ARGUMENT lists the choices. The empty word is the unspecified value, or private propagation.
absl::StatusOr<v1::AccessMode> ParseAccessMode(std::string_view word);
absl::StatusOr<v1::AttachmentMode> ParseAttachmentMode(std::string_view word);
absl::StatusOr<v1::ClaimMode> ParseClaimMode(std::string_view word);
absl::StatusOr<v1::Propagation> ParsePropagation(std::string_view word);

std::string ToString(v1::AccessMode mode);               // "single-node-writer"; empty for unspecified
std::string ToString(v1::AttachmentMode mode);           // "file-system"
std::string ToString(v1::ClaimMode mode);                // "read"
std::string ToString(v1::Propagation propagation);       // "rslave"
std::string ToString(v1::Claim::State state);            // "node-detached"
std::string ToString(const v1::Capability& capability);  // "single-node-writer file-system"
std::string ToString(const v1::VolumeKey& key);          // "db"; "prod/db" in another namespace than "default"
std::string TimeText(std::int64_t unix_ms);              // "2026-11-22T04:05:06Z"; empty for 0
std::string NextTryText(const v1::OwedWork& work);       // "in 4 s", "now"

// "db[3]"
std::string PerAllocId(const std::string& id, std::uint32_t index);

// Splits a command line in one string, and unquotes its words, as a POSIX shell does: '…', "…", \. There is no shell,
// so $HOME and * are not expanded. INVALID_ARGUMENT: a quote that is not closed, a backslash at the end, or no words.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line);

}  // namespace mooring::cli::manager_area

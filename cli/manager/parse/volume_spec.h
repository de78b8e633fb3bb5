// The volume that the file and the flags of a command describe, and the requests of attach and detach.
#pragma once

#include "absl/status/statusor.h"
#include "cli/manager/arguments.h"
#include "cli/manager/parse/value_text.h"

namespace mooring::cli::manager_area {

v1::VolumeKey KeyOf(const Arguments& arguments);  // with the index of --per-alloc

// The volume of the file, changed by the flags. INVALID_ARGUMENT: no ID, or contradictory flags.
absl::StatusOr<v1::Volume> VolumeOf(const Arguments& arguments);

// Replaces each field of `now` that `described` has. Lists and maps are replaced as a whole.
void Overlay(google::protobuf::Message& now, const google::protobuf::Message& described);

// Adds a capability to a volume without any: a filesystem for one writer.
void SetDefaultCapability(v1::Volume& volume);

// From --access (at most once) and --block; absent if neither is given.
absl::StatusOr<std::optional<v1::Capability>> CapabilityOf(const Arguments& arguments);

absl::StatusOr<v1::MountOptions> MountOptionsOf(const Arguments& arguments);

bool NamesJob(const Arguments& arguments);  // whether --per-alloc, --tasks or --system-job is given
void FillJob(const Arguments& arguments, v1::Job& job);

// For attach and detach, and for mount.csi and umount.csi. The path becomes absolute, and its symbolic links are
// resolved in the namespace of this process.
absl::StatusOr<v1::AttachRequest> AttachRequestOf(const Arguments& arguments);
absl::StatusOr<v1::DetachRequest> DetachRequestOf(const Arguments& arguments);

}  // namespace mooring::cli::manager_area

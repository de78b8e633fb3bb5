// The volume that a command's file and flags describe.
#ifndef MOORING_CLI_MANAGER_PARSE_VOLUME_SPEC_H_
#define MOORING_CLI_MANAGER_PARSE_VOLUME_SPEC_H_

#include "absl/status/statusor.h"
#include "cli/manager/arguments.h"
#include "cli/manager/parse/words.h"

namespace mooring::cli::manager_area {

v1::VolumeKey KeyOf(const Arguments& arguments);  // with the index of --per-alloc

// The file, and over it the flags. INVALID_ARGUMENT: no id, flags that contradict each other.
absl::StatusOr<v1::Volume> VolumeOf(const Arguments& arguments);

// Every field that `described` has, in the place of that of `now`; lists and maps as a whole.
void Overlay(google::protobuf::Message& now, const google::protobuf::Message& described);

// Where nothing says how it may be used: a filesystem for one writer.
void SetDefaultCapability(v1::Volume& volume);

// --access (once at most) and --block; absent where neither is given.
absl::StatusOr<std::optional<v1::Capability>> CapabilityOf(const Arguments& arguments);

absl::StatusOr<v1::MountOptions> MountOptionsOf(const Arguments& arguments);

// --per-alloc, --tasks, --system-job; nothing where none is given.
void FillJob(const Arguments& arguments, v1::Job& job);
bool NamesJob(const Arguments& arguments);

}  // namespace mooring::cli::manager_area

#endif  // MOORING_CLI_MANAGER_PARSE_VOLUME_SPEC_H_

// Project quotas of xfs and ext4: a limit for all files that have the same project id. Linux 5.14 has the calls that
// take a descriptor. `file` is any open file or directory of the filesystem, and `path` is for messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

// The ids that Mooring uses. Others count from 1 (Docker, xfs_quota) or from 1,048,577 (Kubernetes).
inline constexpr std::uint32_t kFirstProject = 1U << 30U, kLastProject = (1U << 31U) - 1;

// The project of a directory with this name. It follows from the random digits of the volume's id, which only the
// catalog has, so whatever an interrupted call has made is found again. 0: the name has no such digits.
std::uint32_t ProjectOf(std::string_view name);

// Needs no privilege. FAILED_PRECONDITION: limits of projects are not enforced; the message says what to do.
absl::Status CheckEnforcesProjects(const UniqueFd& file, const std::string& path);

struct ProjectUsage {
  std::uint64_t most_bytes = 0, most_inodes = 0;  // 0: no limit
  std::uint64_t bytes = 0, inodes = 0;
};

// The next two need CAP_SYS_ADMIN. Empty: the filesystem has no project quotas, or nothing of this project.
absl::StatusOr<std::optional<ProjectUsage>> UsageOfProject(const UniqueFd& file, std::uint32_t project,
                                                           const std::string& path);

// Limits of 0 are taken away. A higher limit acts at once.
absl::Status LimitProject(const UniqueFd& file, std::uint32_t project, std::uint64_t bytes, std::uint64_t inodes,
                          const std::string& path);

struct ProjectMark {
  std::uint32_t project = 0;
  bool inherits = false;  // of a directory: what is made in it has the same project

  bool operator==(const ProjectMark&) const = default;
};

// Empty: the filesystem has no projects.
absl::StatusOr<std::optional<ProjectMark>> MarkOf(const UniqueFd& file, const std::string& path);

// FAILED_PRECONDITION: what is made in the directory gets its project. The kernel moves no directory of another project
// into it, so it cannot hold sized directories.
absl::Status CheckGivesNoProject(const UniqueFd& directory, const std::string& path);

// Sets the mark of this file or directory alone, and reads it back.
absl::Status SetMark(const UniqueFd& file, const ProjectMark& mark, const std::string& path);

}  // namespace mooring

// The arguments of `mooring mount`, `umount`, `list`, `show`, `propagation` and `trim`.
#pragma once

#include <sys/types.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring::cli::mounts_area {

struct Arguments {
  bool json = false;

  std::string source;
  std::string target;
  std::string fs_type;
  std::vector<std::string> options;
  std::string propagation;
  std::string idmap;
  bool read_only = false;
  bool nosuid = false;
  bool nodev = false;
  bool noexec = false;
  bool noatime = false;
  bool recursive = false;
  bool remove = false;
  bool if_exists = false;

  pid_t pid = 0;         // 0: the mount namespace of this process
  pid_t source_pid = 0;  // the same, for the source of mount bind

  std::string below;
  std::string word;
};

// The answer of a command: complete lines that are fit for a terminal, and one line of JSON.
struct Answer {
  std::string text;
  std::string json;
};

// Runs a command. Warnings go to `err`.
using Run = absl::StatusOr<Answer> (*)(const Arguments& arguments, std::ostream& err);

absl::StatusOr<Answer> MountBind(const Arguments& arguments, std::ostream& err);             // mount.cc
absl::StatusOr<Answer> MountDevice(const Arguments& arguments, std::ostream& err);           // mount.cc
absl::StatusOr<Answer> MountImage(const Arguments& arguments, std::ostream& err);            // mount.cc
absl::StatusOr<Answer> Unmount(const Arguments& arguments, std::ostream& err);               // umount.cc
absl::StatusOr<Answer> List(const Arguments& arguments, std::ostream& err);                  // inspect.cc
absl::StatusOr<Answer> Show(const Arguments& arguments, std::ostream& err);                  // inspect.cc
absl::StatusOr<Answer> ShowOrSetPropagation(const Arguments& arguments, std::ostream& err);  // propagation.cc
absl::StatusOr<Answer> Trim(const Arguments& arguments, std::ostream& err);                  // trim.cc

}  // namespace mooring::cli::mounts_area

// The command line of a mount helper, in the form of mount(8) and umount(8), and the options of mount.csi.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/manager/arguments.h"

namespace mooring::cli::mount_csi {

struct HelperLine {
  std::vector<std::string> words;    // "db /srv/db", or umount's "/srv/db"
  std::vector<std::string> options;  // of every -o, split at commas
  bool fake = false;                 // -f: everything except the mount itself
  bool no_table = false;             // -n: no entry in utab
  bool verbose = false;              // -v
  bool all = false;                  // -a: no word
};

// `letters` are the flags without a value; -o and -t have one. INVALID_ARGUMENT: another flag, or not `count` words.
absl::StatusOr<HelperLine> ParseHelperLine(int argc, const char* const* argv, std::string_view letters,
                                           std::size_t count);

struct MountOptions {
  manager_area::Arguments arguments;  // of `mooring attach`
  bool remount = false;
  Duration wait = std::chrono::seconds(80);  // less than the 90 s that systemd allows
};

// Parses plugin=, access=, propagation=, ro, for=, wait=, … Ignores options for mount(8) and systemd. Unknown options
// become mount flags for the plugin. INVALID_ARGUMENT: a wrong value.
absl::StatusOr<MountOptions> ParseMountOptions(const std::vector<std::string>& options);

}  // namespace mooring::cli::mount_csi

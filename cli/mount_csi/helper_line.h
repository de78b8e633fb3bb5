// The command line of a mount helper, as mount(8) and umount(8) write it, and the options of mount.csi.
#ifndef MOORING_CLI_MOUNT_CSI_HELPER_LINE_H_
#define MOORING_CLI_MOUNT_CSI_HELPER_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/manager/arguments.h"

namespace mooring::cli::mount_csi {

struct HelperLine {
  std::vector<std::string> words;    // "db /srv/db", or umount's "/srv/db"
  std::vector<std::string> options;  // of every -o, cut at commas
  bool fake = false;                 // -f: all but the mount itself
  bool no_table = false;             // -n: no entry in utab
  bool verbose = false;              // -v
};

// `letters`: those that stand alone; -o and -t have a value. INVALID_ARGUMENT: another letter, or not `count`
// words.
absl::StatusOr<HelperLine> ParseHelperLine(int argc, const char* const* argv, std::string_view letters,
                                           std::size_t count);

struct MountOptions {
  manager_area::Arguments arguments;         // as of `mooring attach`
  Duration wait = std::chrono::seconds(80);  // systemd gives a mount 90
};

// plugin=, access=, propagation=, ro, for=, wait=, … What is meant for mount(8), systemd or nobody is left out; what is
// not known goes to the plugin as a mount flag. INVALID_ARGUMENT: a wrong value, or `remount`.
absl::StatusOr<MountOptions> ParseMountOptions(const std::vector<std::string>& options);

}  // namespace mooring::cli::mount_csi

#endif  // MOORING_CLI_MOUNT_CSI_HELPER_LINE_H_

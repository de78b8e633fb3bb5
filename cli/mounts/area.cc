// `mooring mount`, `umount`, `list`, `show`, `propagation` and `trim`.
#include <string>
#include <vector>

#include "cli/command/command_table.h"
#include "cli/mounts/arguments.h"

namespace mooring::cli::mounts_area {
namespace {

using Command = CommandOf<Arguments, Run>;
using Commands = std::vector<Command>;
using Flag = FlagOf<Arguments>;
using Flags = FlagsOf<Arguments>;

// Paths are not sent in a request, so they need not be UTF-8.
constexpr Flag LocalFlag(const char* name, const char* value, const char* help, SlotOf<Arguments> slot) {
  return {name, value, help, slot, "", /*is_sent=*/false};
}

constexpr Flag kJson{"--json", "", "Print the answer as JSON", &Arguments::json};
constexpr Flag kBindSource = LocalFlag("SRC", "", "Directory, file or device node to bind", &Arguments::source);
constexpr Flag kDevice = LocalFlag("DEVICE", "", "Block device, or a link to it", &Arguments::source);
constexpr Flag kImage = LocalFlag("FILE", "", "Image: a regular file", &Arguments::source);
constexpr Flag kBindTarget =
    LocalFlag("DST", "", "Mount point: an empty directory or file; created if missing", &Arguments::target);
constexpr Flag kFilesystemTarget =
    LocalFlag("DST", "", "Mount point: an empty directory; created if missing", &Arguments::target);
constexpr Flag kUnmountTarget = LocalFlag("DST", "", "Mount point; need not be mounted", &Arguments::target);
constexpr Flag kTarget = LocalFlag("DST", "", "Mount point", &Arguments::target);
constexpr Flag kReadOnly{"--read-only", "", "Refuse writes through this mount", &Arguments::read_only};
constexpr Flag kNosuid{"--nosuid", "", "Ignore set-user-ID and set-group-ID bits", &Arguments::nosuid};
constexpr Flag kNodev{"--nodev", "", "Refuse to open device nodes", &Arguments::nodev};
constexpr Flag kNoexec{"--noexec", "", "Refuse to execute programs", &Arguments::noexec};
constexpr Flag kNoatime{"--noatime", "", "Do not update access times", &Arguments::noatime};
constexpr Flag kOption = LocalFlag("--option", "OPTION", "Other mount option; repeatable", &Arguments::options);
constexpr Flag kPropagation =
    LocalFlag("--propagation", "WORD",
              "private, rslave, rshared, or the word of Nomad or Kubernetes (default: as the parent mount gives)",
              &Arguments::propagation);
constexpr Flag kFsType =
    LocalFlag("--fs-type", "TYPE", "Type of the filesystem (default: as libblkid detects)", &Arguments::fs_type);
constexpr Flag kRecursive{"--recursive", "", "Bind the mounts below SRC, too", &Arguments::recursive};
constexpr Flag kTargetPid{"--pid", "PID", "Process in whose mount namespace DST is", &Arguments::pid};
constexpr Flag kSourcePid{"--source-pid", "PID", "Process in whose mount namespace SRC is", &Arguments::source_pid};
constexpr Flag kPid{"--pid", "PID", "Process whose mount namespace to use", &Arguments::pid};
constexpr Flag kRemove{"--remove", "", "Also remove DST, an empty directory or file", &Arguments::remove};
constexpr Flag kIfExists{"--if-exists", "", "Succeed if nothing is mounted at DST", &Arguments::if_exists};
constexpr Flag kBelow = LocalFlag("--below", "DIR", "Only what is mounted at and below DIR", &Arguments::below);
constexpr Flag kWord = LocalFlag("WORD", "",
                                 "New propagation: private, slave or shared; rprivate, rslave, rshared or the word "
                                 "of Nomad or Kubernetes also change all mounts below",
                                 &Arguments::word);

constexpr Flag kIdMap = LocalFlag("--idmap", "MAP",
                                  "Other owners of the files: b:0:100000:65536 (0 on the disk is 100000), or the path "
                                  "of a user namespace, as X-mount.idmap of mount(8)",
                                  &Arguments::idmap);

const Flags kMountFlags{&kReadOnly, &kNosuid, &kNodev, &kNoexec, &kNoatime, &kOption, &kPropagation, &kIdMap};

Commands MountCommands() {
  return {
      {"bind",
       "Bind a directory, file or device node to another path",
       {&kBindSource, &kBindTarget},
       AllOf<Arguments>({kMountFlags, {&kRecursive, &kTargetPid, &kSourcePid}}),
       MountBind,
       "Examples:\n"
       "  mooring mount bind /srv/data /srv/task --propagation rslave --read-only --nosuid\n"
       "  mooring mount bind /srv/data /data --pid 4711 --propagation rslave"},
      {"device",
       "Mount the filesystem on a block device; never formats a device",
       {&kDevice, &kFilesystemTarget},
       AllOf<Arguments>({{&kFsType}, kMountFlags}),
       MountDevice,
       "Example:\n  mooring mount device /dev/disk/by-id/scsi-1 /mnt/data --fs-type xfs --option noatime"},
      {"image",
       "Mount the filesystem in an image file, through a loop device that goes with the mount",
       {&kImage, &kFilesystemTarget},
       AllOf<Arguments>({{&kFsType}, kMountFlags}),
       MountImage,
       "Example:\n  mooring mount image /srv/disk.img /mnt/data --read-only"},
  };
}

Commands OtherCommands() {
  return {
      {"umount",
       "Unmount the topmost mount at a path",
       {&kUnmountTarget},
       {&kRemove, &kIfExists, &kPid},
       Unmount,
       "Example:\n  mooring umount /mnt/data --remove"},
      {"list",
       "List the mounts of this host",
       {},
       {&kBelow, &kPid},
       List,
       "Example:\n  mooring list --below /var/lib/kubelet"},
      {"show",
       "Show one mount, and every mount that is tied to it",
       {&kTarget},
       {&kPid},
       Show,
       "Example:\n  mooring show /mnt/data"},
      {"propagation",
       "Show or change the propagation of a mount",
       {&kTarget},
       {&kWord},
       ShowOrSetPropagation,
       "Examples:\n"
       "  mooring propagation /var/lib/kubelet\n"
       "  mooring propagation /var/lib/kubelet rshared"},
      {"trim",
       "Give space that was freed in mounted volumes back to the disks of their images, as fstrim(8) does",
       {},
       {&kBelow},
       Trim,
       "Examples:\n"
       "  mooring trim\n"
       "  mooring trim --below /var/lib/kubelet"},
  };
}

absl::StatusOr<int> Execute(const Command& command, Arguments& arguments, const Streams& streams) {
  MOORING_ASSIGN_OR_RETURN(const Answer answer, command.run(arguments, streams.err));
  streams.out << (arguments.json ? answer.json + "\n" : answer.text);
  return kExitOk;
}

}  // namespace

void Add(CLI::App& root, Action& chosen) {
  const CommandTable<Command> table{.execute = Execute, .every_command = {&kJson}};
  table.Add(root, {"mount", "Mount a directory, a device or an image file", {MountCommands}}, chosen);
  table.Add(root, {"", "", {OtherCommands}}, chosen);
}

}  // namespace mooring::cli::mounts_area

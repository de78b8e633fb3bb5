#include "cli/mounts/area.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/flags/options.h"
#include "cli/mounts/arguments.h"
#include "cli/output/report.h"
#include "cli/run.h"

namespace mooring::cli::mounts_area {
namespace {

using ArgumentsPtr = std::shared_ptr<Arguments>;

int Execute(Run run, const Arguments& arguments, const CLI::App& app, const Streams& streams) {
  const absl::StatusOr<Answer> answer = run(arguments, streams.err);
  if (!answer.ok()) return Report(answer.status(), arguments.json, app, streams);
  streams.out << (arguments.json ? answer->json + "\n" : answer->text);
  return kExitOk;
}

struct Command {
  CLI::App* app = nullptr;
  ArgumentsPtr arguments;
};

Command AddCommand(CLI::App& parent, const char* name, const char* help, Run run, Action& chosen) {
  const Command command{parent.add_subcommand(name, help), std::make_shared<Arguments>()};
  command.app->add_flag("--json", command.arguments->json, "print the answer as JSON");
  command.app->callback([command, run, &chosen] {
    chosen = [command, run](const Streams& streams) { return Execute(run, *command.arguments, *command.app, streams); };
  });
  return command;
}

void AddTarget(const Command& command, const char* help) {
  AddText(*command.app, "DST", "", help, command.arguments->target)->required();
}

void AddMountFlags(const Command& command) {
  CLI::App& app = *command.app;
  Arguments& arguments = *command.arguments;
  app.add_flag("--read-only", arguments.read_only, "nobody writes through this mount");
  app.add_flag("--nosuid", arguments.nosuid, "set-user-ID and set-group-ID bits have no effect");
  app.add_flag("--nodev", arguments.nodev, "device nodes cannot be opened");
  app.add_flag("--noexec", arguments.noexec, "nothing can be executed");
  app.add_flag("--noatime", arguments.noatime, "reading leaves no access times");
  AddTexts(app, "--option", "OPTION", "another mount option; may be given again", arguments.options);
  AddText(app, "--propagation", "WORD",
          "private, rslave or rshared, or Nomad's or Kubernetes' word (what attaching gives)", arguments.propagation);
}

void AddBind(CLI::App& mount, Action& chosen) {
  const Command command =
      AddCommand(mount, "bind", "let a directory, file or device node be seen at another path", MountBind, chosen);
  AddText(*command.app, "SRC", "", "what is to be seen", command.arguments->source)->required();
  AddTarget(command, "where; made if it is missing, else an empty directory (or file)");
  AddMountFlags(command);
  command.app->add_flag("--recursive", command.arguments->recursive, "the mounts below SRC, too");
  AddPid(*command.app, "--pid", "DST is in the mount namespace of this process", command.arguments->pid);
  AddPid(*command.app, "--source-pid", "SRC is in the mount namespace of this process", command.arguments->source_pid);
  command.app->footer(
      "Examples:\n"
      "  mooring mount bind /srv/data /srv/task --propagation rslave --read-only --nosuid\n"
      "  mooring mount bind /srv/data /data --pid 4711 --propagation rslave");
}

void AddFilesystem(CLI::App& mount, const char* name, const char* help, const char* source, const char* source_help,
                   Run run, const char* examples, Action& chosen) {
  const Command command = AddCommand(mount, name, help, run, chosen);
  AddText(*command.app, source, "", source_help, command.arguments->source)->required();
  AddTarget(command, "where; made if it is missing, else an empty directory");
  AddText(*command.app, "--fs-type", "TYPE", "the filesystem (what libblkid finds)", command.arguments->fs_type);
  AddMountFlags(command);
  command.app->footer(examples);
}

void AddMount(CLI::App& root, Action& chosen) {
  CLI::App* mount = root.add_subcommand("mount", "mount a directory, a device or an image file");
  mount->require_subcommand(1);
  AddBind(*mount, chosen);
  AddFilesystem(*mount, "device", "mount the filesystem on a block device; never formats one", "DEVICE",
                "a block device, or a link to it", MountDevice,
                "Example:\n  mooring mount device /dev/disk/by-id/scsi-1 /mnt/data --fs-type xfs --option noatime",
                chosen);
  AddFilesystem(*mount, "image", "mount the filesystem in a file, through a loop device that goes with the mount",
                "FILE", "a regular file", MountImage,
                "Example:\n  mooring mount image /srv/disk.img /mnt/data --read-only", chosen);
}

void AddUnmount(CLI::App& root, Action& chosen) {
  const Command command = AddCommand(root, "umount", "take the topmost mount at a path down", Unmount, chosen);
  AddTarget(command, "where it is mounted; nothing mounted there is no error");
  command.app->add_flag("--remove", command.arguments->remove, "and remove DST, an empty directory or file");
  AddPid(*command.app, "--pid", "in the mount namespace of this process", command.arguments->pid);
  command.app->footer("Example:\n  mooring umount /mnt/data --remove");
}

void AddLooks(CLI::App& root, Action& chosen) {
  const Command list = AddCommand(root, "list", "the mounts of this host", List, chosen);
  AddText(*list.app, "--below", "DIR", "only those at and below it", list.arguments->below);
  AddPid(*list.app, "--pid", "of the mount namespace of this process", list.arguments->pid);
  list.app->footer("Example:\n  mooring list --below /var/lib/kubelet");
  const Command show = AddCommand(root, "show", "all about one mount, and who else sees it", Show, chosen);
  AddTarget(show, "where it is mounted");
  AddPid(*show.app, "--pid", "in the mount namespace of this process", show.arguments->pid);
  show.app->footer("Example:\n  mooring show /mnt/data");
}

void AddPropagation(CLI::App& root, Action& chosen) {
  const Command command =
      AddCommand(root, "propagation", "show or change what mounts pass on", ShowOrSetPropagation, chosen);
  AddTarget(command, "where it is mounted");
  AddText(
      *command.app, "WORD", "",
      "private, slave or shared; rprivate, rslave or rshared (or Nomad's or Kubernetes' word) for all mounts below, "
      "too",
      command.arguments->word);
  command.app->footer(
      "Examples:\n"
      "  mooring propagation /var/lib/kubelet\n"
      "  mooring propagation /var/lib/kubelet rshared");
}

}  // namespace

void Add(CLI::App& root, Action& chosen) {
  AddMount(root, chosen);
  AddUnmount(root, chosen);
  AddLooks(root, chosen);
  AddPropagation(root, chosen);
}

}  // namespace mooring::cli::mounts_area

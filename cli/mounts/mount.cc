// `mooring mount`. It never formats a device.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/mounts/arguments.h"
#include "cli/mounts/describe.h"
#include "cli/mounts/other_namespace.h"
#include "cli/mounts/paths.h"
#include "mounter/kernel/kernel_mounter.h"
#include "mounter/mount_options.h"
#include "mounter/mount_words.h"
#include "mounter/other_filesystems.h"
#include "mounter/propagation.h"

namespace mooring::cli::mounts_area {
namespace {

constexpr std::string_view kIdMapWord = "X-mount.idmap=", kSubdirectoryWord = "X-mount.subdir=";

// The value of the last such word among the options of --option; empty: there is none.
absl::StatusOr<std::string> ValueOf(std::string_view word, const Arguments& arguments) {
  std::string value;
  for (const std::string& element : arguments.options) {
    for (const std::string& option : SplitMountWords(element)) {
      if (!option.starts_with(word)) continue;
      value = option.substr(word.size());
      std::erase(value, '"');
      if (value.empty()) return InvalidArgument("{} has no value", Quote(option));
    }
  }
  return value;
}

absl::StatusOr<std::string> IdMapOf(const Arguments& arguments) {
  MOORING_ASSIGN_OR_RETURN(const std::string value, ValueOf(kIdMapWord, arguments));
  return arguments.idmap.empty() ? value : arguments.idmap;
}

// All mount options but `taken`: those of --option, and those of the switches.
std::vector<std::string> OptionsOf(const Arguments& arguments, const std::vector<std::string_view>& taken) {
  std::vector<std::string> options;
  for (const std::string& element : arguments.options) {
    for (const std::string& option : SplitMountWords(element)) {
      const auto is_start = [&option](std::string_view word) { return option.starts_with(word); };
      if (std::none_of(taken.begin(), taken.end(), is_start)) options.push_back(option);
    }
  }
  if (arguments.read_only) options.emplace_back("ro");
  if (arguments.nosuid) options.emplace_back("nosuid");
  if (arguments.nodev) options.emplace_back("nodev");
  if (arguments.noexec) options.emplace_back("noexec");
  if (arguments.noatime) options.emplace_back("noatime");
  return options;
}

absl::StatusOr<Propagation> PropagationOf(const Arguments& arguments) {
  if (arguments.propagation.empty()) return Propagation::kInherit;
  return ParsePropagation(arguments.propagation);
}

absl::StatusOr<struct stat> StatPath(const std::string& path, const std::string& given) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0) return status;
  if (errno != ENOENT) return ErrnoStatus(errno, "look at", given);
  return NotFound("there is no {}", Quote(given));
}

// Describes the new mount from the kernel's table. If that cannot be read, only source and target are known.
Answer DescribeNewMount(const std::string& source, const std::string& target) {
  TableMount made;
  made.target = target;
  made.source = source;
  const absl::StatusOr<NamespaceView> view = ViewOf(0);
  const TableMount* found = view.ok() ? MountAtPath(*view, target) : nullptr;
  if (found != nullptr) made = *found;
  return {fmt::format("mounted {} at {} ({})\n", Visible(source), Visible(target), Visible(StateText(made))),
          JsonObject().AddRaw("mount", MountJson(made).ToString()).ToString()};
}

absl::StatusOr<BindRequest> BindRequestOf(const Arguments& arguments) {
  BindRequest request;
  request.recursive = arguments.recursive;
  MOORING_ASSIGN_OR_RETURN(const MountOptions options,
                           ParseMountFlags("a bind mount", OptionsOf(arguments, {kIdMapWord})));
  request.flags = options.flags;
  MOORING_ASSIGN_OR_RETURN(request.idmap, IdMapOf(arguments));
  MOORING_ASSIGN_OR_RETURN(request.propagation, PropagationOf(arguments));
  MOORING_ASSIGN_OR_RETURN(request.source, ResolvePathIn(arguments.source_pid, arguments.source));
  MOORING_ASSIGN_OR_RETURN(request.target, ResolvePathIn(arguments.pid, arguments.target));
  const std::string seen = PathFromHere(arguments.source_pid, request.source);
  MOORING_ASSIGN_OR_RETURN(const struct stat source, StatPath(seen, arguments.source));
  request.target_kind = S_ISDIR(source.st_mode) ? TargetKind::kDirectory : TargetKind::kFile;
  return request;
}

absl::StatusOr<Answer> BindAcrossNamespaces(const Arguments& arguments, const BindRequest& request) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd source, OpenMountNamespace(arguments.source_pid));
  MOORING_ASSIGN_OR_RETURN(const UniqueFd target, OpenMountNamespace(arguments.pid));
  MOORING_RETURN_IF_ERROR(BindAcross(request, source, target));
  if (arguments.pid == 0) return DescribeNewMount(request.source, request.target);
  const std::string text = fmt::format("mounted {} at {} in the mount namespace of process {}\n",
                                       Visible(request.source), Visible(request.target), arguments.pid);
  const std::string mount = JsonObject().Add("target", request.target).Add("source", request.source).ToString();
  return Answer{
      text, JsonObject().AddRaw("mount", mount).AddNumber("pid", static_cast<std::uint64_t>(arguments.pid)).ToString()};
}

// A person who names a filesystem without a table of options may give it any option, and else those of all filesystems.
absl::StatusOr<MountOptions> ParseOptions(const Arguments& arguments, const std::string& fs_type) {
  const std::vector<std::string> options = OptionsOf(arguments, {kIdMapWord, kSubdirectoryWord});
  if (HasOptionTable(fs_type)) return ParseMountFlags(fs_type, options);
  MOORING_ASSIGN_OR_RETURN(MountOptions parsed, ParseForeignOptions(options));
  if (!arguments.fs_type.empty()) return parsed;
  for (const FilesystemOption& option : parsed.options) {
    if (IsCommonOption(option)) continue;
    return InvalidArgument("option {} is not allowed for {} unless it is named: --fs-type {}", Quote(option.key),
                           fs_type, fs_type);
  }
  return parsed;
}

// The filesystem type for the mount. FAILED_PRECONDITION: there is no mountable filesystem; the message says what to
// do, because this command does not format.
absl::StatusOr<std::string> TypeFrom(const FilesystemInfo& found, const std::string& asked, const std::string& path) {
  const std::string what = Quote(path);
  if (found.content == FilesystemInfo::Content::kEmpty) {
    return FailedPrecondition(
        "there is no filesystem on {}: create one first (mkfs.ext4 {}); this command never formats", what,
        ShellQuote(path));
  }
  if (found.type == "unknown data" && asked.empty()) {
    return FailedPrecondition("{} holds data that libblkid does not know: give the filesystem with --fs-type", what);
  }
  if (found.type.ends_with("partition table")) {
    return FailedPrecondition("{} holds a {}: give a partition (lsblk {})", what, found.type, ShellQuote(path));
  }
  if (!asked.empty() && found.type != "unknown data" && !IsDriverOf(asked, found.type)) {
    return FailedPrecondition("{} holds {}, not {}: leave --fs-type out", what, found.type, asked);
  }
  return asked.empty() ? found.type : asked;
}

absl::StatusOr<Answer> MountFilesystem(const Arguments& arguments, const std::string& source, std::ostream& err) {
  KernelMounter mounter;
  MountRequest request;
  MOORING_ASSIGN_OR_RETURN(request.propagation, PropagationOf(arguments));
  MOORING_ASSIGN_OR_RETURN(request.target, ResolvePath(arguments.target));
  MOORING_ASSIGN_OR_RETURN(const FilesystemInfo found, mounter.Probe(source));
  MOORING_ASSIGN_OR_RETURN(request.fs_type, TypeFrom(found, arguments.fs_type, source));
  MOORING_ASSIGN_OR_RETURN(const MountOptions options, ParseOptions(arguments, request.fs_type));
  request.by_hand = true;
  request.may_run_program = !arguments.fs_type.empty();
  request.source = source;
  request.label = source.substr(0, 63);
  request.flags = options.flags;
  request.options = options.options;
  MOORING_ASSIGN_OR_RETURN(request.subdirectory, ValueOf(kSubdirectoryWord, arguments));
  MOORING_ASSIGN_OR_RETURN(request.idmap, IdMapOf(arguments));
  MOORING_RETURN_IF_ERROR(mounter.Mount(request));
  if (found.needs_check) {
    err << "mooring: the ext4 on " << Visible(source)
        << " was not unmounted cleanly or has errors: check it (e2fsck -p)\n";
  }
  return DescribeNewMount(source, request.target);
}

}  // namespace

absl::StatusOr<Answer> MountBind(const Arguments& arguments, std::ostream&) {
  MOORING_RETURN_IF_ERROR(CheckMayMount());
  MOORING_ASSIGN_OR_RETURN(const BindRequest request, BindRequestOf(arguments));
  if (arguments.pid != 0 || arguments.source_pid != 0) return BindAcrossNamespaces(arguments, request);
  KernelMounter mounter;
  MOORING_RETURN_IF_ERROR(mounter.Bind(request));
  return DescribeNewMount(request.source, request.target);
}

absl::StatusOr<Answer> MountDevice(const Arguments& arguments, std::ostream& err) {
  MOORING_RETURN_IF_ERROR(CheckMayMount());
  MOORING_ASSIGN_OR_RETURN(const std::string device, ResolvePath(arguments.source));
  MOORING_ASSIGN_OR_RETURN(const struct stat status, StatPath(device, arguments.source));
  if (S_ISBLK(status.st_mode)) return MountFilesystem(arguments, device, err);
  const char* const hint = S_ISREG(status.st_mode)   ? ": for a file, use mooring mount image"
                           : S_ISDIR(status.st_mode) ? ": for a directory, use mooring mount bind"
                                                     : "";
  return InvalidArgument("{} is not a block device{}", Quote(arguments.source), hint);
}

absl::StatusOr<Answer> MountImage(const Arguments& arguments, std::ostream& err) {
  MOORING_RETURN_IF_ERROR(CheckMayMount());
  MOORING_ASSIGN_OR_RETURN(const std::string file, ResolvePath(arguments.source));
  MOORING_ASSIGN_OR_RETURN(const struct stat status, StatPath(file, arguments.source));
  if (S_ISREG(status.st_mode)) return MountFilesystem(arguments, file, err);
  const char* const hint = S_ISBLK(status.st_mode) ? ": for a block device, use mooring mount device" : "";
  return InvalidArgument("{} is not a regular file{}", Quote(arguments.source), hint);
}

}  // namespace mooring::cli::mounts_area

#include "cli/mount_csi/mount_csi.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <libmount/libmount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/client/client.h"
#include "cli/manager/connection.h"
#include "cli/manager/parse/volume_spec.h"
#include "cli/mount_csi/helper_line.h"
#include "cli/mounts/mount_graph.h"
#include "cli/mounts/paths.h"
#include "cli/output/report.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::mount_csi {
namespace {

// utab, the table in which libmount keeps what the kernel does not know about a mount, such as its unmount helper.
using Update = std::unique_ptr<libmnt_update, void (*)(libmnt_update*)>;
using Table = std::unique_ptr<libmnt_table, void (*)(libmnt_table*)>;
using Filesystem = std::unique_ptr<libmnt_fs, void (*)(libmnt_fs*)>;

constexpr char kOperation[] = "write the unmount helper into libmount's table for";

absl::Status Write(libmnt_update* update, const std::string& target) {
  const int error = mnt_update_table(update, nullptr);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(-error, kOperation, target);
}

// Whether the table already has the entry: from an earlier, identical attach.
bool HasUnmountHelper(const std::string& target) {
  const Table table(mnt_new_table(), mnt_unref_table);
  if (table == nullptr || mnt_table_parse_mtab(table.get(), nullptr) != 0) return false;
  libmnt_fs* const entry = mnt_table_find_target(table.get(), target.c_str(), MNT_ITER_BACKWARD);
  const char* const options = entry == nullptr ? nullptr : mnt_fs_get_user_options(entry);
  char* value = nullptr;
  std::size_t size = 0;
  if (options == nullptr || mnt_optstr_get_option(options, "helper", &value, &size) != 0) return false;
  return value != nullptr && std::string_view(value, size) == "csi";
}

// Makes umount(8) of `target` call umount.csi. Does nothing if no mount is there.
absl::Status AddUnmountHelper(const std::string& target) {
  MOORING_ASSIGN_OR_RETURN(const NamespaceView view, ViewOf(0));
  const TableMount* mount = MountAtPath(view, target);
  if (mount == nullptr) return absl::OkStatus();
  if (HasUnmountHelper(target)) return absl::OkStatus();
  const Update update(mnt_new_update(), mnt_free_update);
  const Filesystem entry(mnt_new_fs(), mnt_unref_fs);
  if (update == nullptr || entry == nullptr) return ErrnoStatus(ENOMEM, kOperation, target);
  mnt_fs_set_source(entry.get(), mount->source.c_str());
  mnt_fs_set_target(entry.get(), target.c_str());
  mnt_fs_set_options(entry.get(), "uhelper=csi,helper=csi");
  const int error = mnt_update_set_fs(update.get(), 0, nullptr, entry.get());
  if (error > 0) return absl::OkStatus();  // libmount keeps no table here
  if (error < 0) return ErrnoStatus(-error, kOperation, target);
  // helper= is for root, uhelper= for other users. libmount finds the entry by source, target and root of the mount,
  // and assumes the root "/" for a mount that is not a bind.
  mnt_fs_set_root(mnt_update_get_fs(update.get()), mount->root.c_str());
  return Write(update.get(), target);
}

// OK if there is no entry.
absl::Status RemoveUnmountHelper(const std::string& target) {
  const Update update(mnt_new_update(), mnt_free_update);
  if (update == nullptr) return ErrnoStatus(ENOMEM, kOperation, target);
  const int error = mnt_update_set_fs(update.get(), 0, target.c_str(), nullptr);
  if (error > 0) return absl::OkStatus();
  return error < 0 ? ErrnoStatus(-error, kOperation, target) : Write(update.get(), target);
}

constexpr std::chrono::seconds kPromptAnswer{2};  // after that, WaitForManager tells what it waits for

absl::Status Ask(const Client& client, const Client::Limit& limit) {
  using manager::v1::Manager;
  return client.CallWhenServed(&Manager::Stub::GetManagerInfo, manager::v1::GetManagerInfoRequest(), limit).status();
}

// Systemd holds the socket of a manager that does not start.
std::string NoAnswer(const std::string& socket) {
  return fmt::format(
      "the manager does not answer at {}; 'systemctl status mooring-manager' and 'journalctl -u mooring-manager' tell "
      "why",
      Quote(socket));
}

// Prints "PROGRAM: waiting up to 80 s: REASON".
void TellWait(std::string_view program, const Client::Limit& limit, std::string_view reason, std::ostream& err) {
  const auto left = std::chrono::ceil<std::chrono::seconds>(limit.deadline - Client::Clock::now());
  err << fmt::format("{}: waiting up to {} s: {}\n", program, left.count(), reason) << std::flush;
}

// Waits until the manager answers. Returns at once if waiting cannot help: this user may not open the socket, or it is
// none.
absl::Status WaitForManager(std::string_view program, const ClientOptions& options, const Client::Limit& limit,
                            std::ostream& err) {
  const Client client(options, err);
  std::string problem = SocketProblem(options.socket_path, options.server);
  if (!problem.empty() && !MayComeUp(options.socket_path)) return Unavailable(problem);
  if (problem.empty()) {
    Client::Limit prompt = limit;
    prompt.deadline = std::min(limit.deadline, Client::Clock::now() + kPromptAnswer);
    const absl::Status status = Ask(client, prompt);
    const bool is_over = Client::Clock::now() + kPromptAnswer / 10 >= limit.deadline;
    if ((!absl::IsDeadlineExceeded(status) && !absl::IsUnavailable(status)) || is_over) return status;
    problem = NoAnswer(options.socket_path);
  }
  TellWait(program, limit, problem, err);
  return Ask(client, limit);
}

using manager_area::CallWithSteps;
namespace v1 = ::mooring::manager::v1;
using v1::Manager;

constexpr std::chrono::milliseconds kBetweenTries{500};
constexpr std::string_view kPrefix = "csi:";
constexpr char kMountUsage[] = "Usage: mount.csi csi:VOLUME DIRECTORY [-sfnv] [-o OPTION,...]; see mount.csi(8)\n";
constexpr char kUnmountUsage[] = "Usage: umount.csi DIRECTORY|csi:VOLUME|-a [-flnrv]; see mount.csi(8)\n";
constexpr char kMount[] = "mount.csi";
constexpr char kUnmount[] = "umount.csi";

absl::StatusOr<ClientOptions> OptionsFor(const HelperLine& line, const MountOptions& options) {
  MOORING_ASSIGN_OR_RETURN(ClientOptions client,
                           manager_area::ClientOptionsFor(options.arguments.socket, options.wait));
  client.verbose = line.verbose;
  client.server.flag = "-o manager=SOCKET";
  return client;
}

Client::Limit LimitOf(const MountOptions& options) {
  return {Client::Clock::now() + options.wait, options.wait, "-o wait="};
}

absl::Status CheckPlugin(const Client& client, const v1::VolumeKey& key, const std::string& plugin) {
  if (plugin.empty()) return absl::OkStatus();
  v1::GetVolumeRequest request;
  *request.mutable_key() = key;
  MOORING_ASSIGN_OR_RETURN(const auto response, client.Call(&Manager::Stub::GetVolume, request));
  if (response.volume().plugin() == plugin) return absl::OkStatus();
  return FailedPrecondition("the volume {} belongs to the plugin {}, not to {}", Quote(key.id()),
                            Quote(response.volume().plugin()), Quote(plugin));
}

// Tries again while the error is UNAVAILABLE: at boot, the plugin may start later than this helper.
absl::Status AttachUntil(const Client::Limit& limit, const ClientOptions& options, const v1::AttachRequest& request,
                         std::ostream& err) {
  for (bool told = false;; told = true) {
    ClientOptions left = options;
    left.timeout = std::max(
        std::chrono::duration_cast<std::chrono::milliseconds>(limit.deadline - Client::Clock::now()), kBetweenTries);
    const Client client(left, err);
    const absl::Status status = CallWithSteps(client, &Manager::Stub::Attach, request).status();
    if (!absl::IsUnavailable(status) || Client::Clock::now() + kBetweenTries >= limit.deadline) return status;
    if (!told) TellWait(kMount, limit, ToLine(status), err);
    std::this_thread::sleep_for(kBetweenTries);
  }
}

absl::StatusOr<std::string> VolumeOf(const std::string& source) {
  if (source == kPrefix || source.empty()) {
    return InvalidArgument("the source {} names no volume: write {}NAME", Quote(source), kPrefix);
  }
  if (source.starts_with(kPrefix)) return source.substr(kPrefix.size());
  if (!source.starts_with('/')) return source;
  return InvalidArgument(
      "the source {} is a path: write {}NAME. mount(8) turns the plain name of a volume into a path if the working "
      "directory contains a file of that name",
      Quote(source), kPrefix);
}

absl::StatusOr<v1::AttachRequest> RequestOf(const HelperLine& line, MountOptions& options) {
  MOORING_ASSIGN_OR_RETURN(options.arguments.id, VolumeOf(line.words[0]));
  options.arguments.path = line.words[1];
  if (options.arguments.allocation.empty()) {
    MOORING_ASSIGN_OR_RETURN(const std::string path, mounts_area::ResolvePath(line.words[1]));
    options.arguments.allocation = "mount:" + path;  // each mount point in fstab is an allocation of its own
  }
  MOORING_ASSIGN_OR_RETURN(v1::AttachRequest request, AttachRequestOf(options.arguments));
  request.set_until_reboot(true);
  return request;
}

// The ID of the mount at the path; 0 if there is none.
absl::StatusOr<std::uint64_t> MountIdAt(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const NamespaceView view, ViewOf(0));
  const TableMount* const mount = MountAtPath(view, path);
  return mount == nullptr ? std::uint64_t{0} : mount->id;
}

// A remount with the same options attaches again, which changes nothing. With others, the manager refuses that.
absl::Status CheckRemount(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t mount, MountIdAt(path));
  if (mount != 0) return absl::OkStatus();
  return FailedPrecondition("nothing is mounted at {}: mount it without 'remount'", Quote(path));
}

absl::Status MountAt(const v1::AttachRequest& request, const HelperLine& line, const MountOptions& options,
                     std::ostream& err) {
  if (options.remount) MOORING_RETURN_IF_ERROR(CheckRemount(request.attach_path()));
  MOORING_ASSIGN_OR_RETURN(const ClientOptions client_options, OptionsFor(line, options));
  const Client::Limit limit = LimitOf(options);
  MOORING_RETURN_IF_ERROR(WaitForManager(kMount, client_options, limit, err));
  const Client client(client_options, err);
  MOORING_RETURN_IF_ERROR(CheckPlugin(client, request.volume(), options.arguments.plugin));
  return AttachUntil(limit, client_options, request, err);
}

// Returns the path that needs an entry in libmount's table; empty if none does.
absl::StatusOr<std::string> DoMount(int argc, const char* const* argv, std::ostream& err) {
  MOORING_ASSIGN_OR_RETURN(const HelperLine line, ParseHelperLine(argc, argv, "sfnv", 2));
  MOORING_ASSIGN_OR_RETURN(MountOptions options, ParseMountOptions(line.options));
  MOORING_ASSIGN_OR_RETURN(const v1::AttachRequest request, RequestOf(line, options));
  if (line.fake) return "";
  MOORING_RETURN_IF_ERROR(MountAt(request, line, options, err));
  return line.no_table ? "" : request.attach_path();
}

// The manager detaches only its own attachments. A mount that another program made there, also on top, stays.
absl::Status CheckUnmounted(const std::string& path, std::uint64_t before) {
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t now, MountIdAt(path));
  if (now == 0 || now != before) return absl::OkStatus();
  return FailedPrecondition(
      "{} is still mounted: the mount is not an attachment of this manager ('mooring attachments' lists those). "
      "findmnt shows it, and 'umount -i' unmounts it without this helper",
      Quote(path));
}

// After an error the mount can be gone nevertheless: then the manager does the rest in the background, which is no
// error of umount(8).
absl::Status UnmountAt(const Client& client, v1::DetachRequest request, std::ostream& err) {
  const std::string path = request.attach_path();
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t before, MountIdAt(path));
  request.set_must_exist(before == 0);  // CheckUnmounted judges a mount of somebody else
  const absl::Status status = CallWithSteps(client, &Manager::Stub::Detach, request).status();
  if (status.ok()) return CheckUnmounted(path, before);
  if (before == 0 || !CheckUnmounted(path, before).ok()) return status;
  err << fmt::format("{}: {} is unmounted, but not yet released: {}\n", kUnmount, Quote(path), ToLine(status));
  return absl::OkStatus();
}

// The paths to unmount: the given one, those of the volume `csi:NAME`, or with -a all that mount.csi has mounted.
// umount(8) itself cannot find these: for the kernel, the mount is one of a loop device and of type ext4.
absl::StatusOr<std::vector<std::string>> PathsOf(const Client& client, const HelperLine& line,
                                                 const MountOptions& options) {
  const std::string word = line.all ? "" : line.words[0];
  if (!line.all && !word.starts_with(kPrefix)) {
    MOORING_ASSIGN_OR_RETURN(std::string path, mounts_area::ResolvePath(word));
    return std::vector<std::string>{std::move(path)};
  }
  v1::ListAttachmentsRequest request;
  if (!line.all) {
    manager_area::Arguments arguments = options.arguments;
    MOORING_ASSIGN_OR_RETURN(arguments.id, VolumeOf(word));
    *request.mutable_volume() = manager_area::KeyOf(arguments);
  }
  MOORING_ASSIGN_OR_RETURN(const auto response, client.Call(&Manager::Stub::ListAttachments, request));
  std::vector<std::string> paths;
  for (const v1::Attachment& attachment : response.attachments()) {
    if (attachment.until_reboot() && !attachment.attach_path().empty()) paths.push_back(attachment.attach_path());
  }
  std::sort(paths.rbegin(), paths.rend());  // paths below others first
  if (line.all || paths.size() == 1) return paths;
  if (paths.empty()) {
    return FailedPrecondition("mount(8) has mounted {} nowhere ('mooring attachments' lists all volumes at paths)",
                              Quote(word));
  }
  return FailedPrecondition("{} is mounted at {}: give one of the directories", Quote(word), fmt::join(paths, ", "));
}

int Report(const char* name, const absl::Status& status, const char* usage, std::ostream& err) {
  const bool wrong_line = ExitStatus(status) == kExitUsage;
  err << name << ": " << ToLine(status) << '\n' << (wrong_line ? usage : "");
  return wrong_line ? kUsage : kFailed;
}

int ReportTable(const char* name, const absl::Status& written, const char* advice, std::ostream& err) {
  if (written.ok()) return kExitOk;
  err << name << ": done, but " << ToLine(written) << advice << '\n';
  return kNoTable;
}

int UnmountOne(const Client& client, const std::string& path, bool no_table, std::ostream& err) {
  v1::DetachRequest request;
  request.set_attach_path(path);
  const absl::Status status = UnmountAt(client, request, err);
  if (!status.ok()) return Report(kUnmount, status, kUnmountUsage, err);
  return no_table ? kExitOk : ReportTable(kUnmount, RemoveUnmountHelper(path), "", err);
}

// Returns the exit status.
absl::StatusOr<int> DoUnmount(int argc, const char* const* argv, std::ostream& err) {
  MOORING_ASSIGN_OR_RETURN(const HelperLine line, ParseHelperLine(argc, argv, "aflnrv", 1));
  MOORING_ASSIGN_OR_RETURN(const MountOptions options, ParseMountOptions(line.options));
  MOORING_ASSIGN_OR_RETURN(const ClientOptions client_options, OptionsFor(line, options));
  const bool served = SocketProblem(client_options.socket_path, client_options.server).empty();
  if (served) MOORING_RETURN_IF_ERROR(WaitForManager(kUnmount, client_options, LimitOf(options), err));
  const Client client(client_options, err);
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> paths, PathsOf(client, line, options));
  int worst = kExitOk;
  for (const std::string& path : paths) worst = std::max(worst, UnmountOne(client, path, line.no_table, err));
  return worst;
}

}  // namespace

Helper HelperNamed(std::string_view argv0) {
  const std::string_view name = argv0.substr(argv0.rfind('/') + 1);  // npos + 1 == 0
  if (name == "mount.csi") return Mount;
  return name == "umount.csi" ? Unmount : nullptr;
}

int Mount(int argc, const char* const* argv, const Streams& streams) {
  const absl::StatusOr<std::string> target = DoMount(argc, argv, streams.err);
  if (!target.ok()) return Report(kMount, target.status(), kMountUsage, streams.err);
  if (target->empty()) return kExitOk;
  return ReportTable(kMount, AddUnmountHelper(*target), "; unmount it with 'umount.csi DIRECTORY'", streams.err);
}

int Unmount(int argc, const char* const* argv, const Streams& streams) {
  const absl::StatusOr<int> status = DoUnmount(argc, argv, streams.err);
  return status.ok() ? *status : Report(kUnmount, status.status(), kUnmountUsage, streams.err);
}

}  // namespace mooring::cli::mount_csi

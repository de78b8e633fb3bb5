#include "cli/mount_csi/mount_csi.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <thread>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"
#include "cli/manager/connection.h"
#include "cli/manager/parse/attach_request.h"
#include "cli/mount_csi/helper_line.h"
#include "cli/mount_csi/utab.h"
#include "cli/mounts/mount_graph.h"
#include "cli/mounts/paths.h"
#include "cli/output/failure.h"
#include "cli/output/report.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::mount_csi {
namespace {

using manager_area::CallWithSteps;
namespace v1 = ::mooring::manager::v1;
using v1::Manager;

constexpr std::chrono::milliseconds kBetweenTries{500};
constexpr std::string_view kPrefix = "csi:";
constexpr char kMountUsage[] = "Usage: mount.csi csi:VOLUME DIRECTORY [-sfnv] [-o OPTION,...]; see mount.csi(8)\n";
constexpr char kUnmountUsage[] = "Usage: umount.csi DIRECTORY [-flnrv]; see mount.csi(8)\n";

// Waits for a manager that is still starting: it answers as soon as its socket exists.
absl::Status WaitForManager(const Client& client, const Client::Limit& limit) {
  return client.CallWhenServed(&Manager::Stub::GetManagerInfo, v1::GetManagerInfoRequest(), limit).status();
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
  for (;;) {
    ClientOptions left = options;
    left.timeout = std::max(
        std::chrono::duration_cast<std::chrono::milliseconds>(limit.deadline - Client::Clock::now()), kBetweenTries);
    const Client client(left, err);
    const absl::Status status = CallWithSteps(client, &Manager::Stub::Attach, request).status();
    if (!absl::IsUnavailable(status) || Client::Clock::now() + kBetweenTries >= limit.deadline) return status;
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
  return AttachRequestOf(options.arguments);
}

absl::Status MountAt(const v1::AttachRequest& request, const HelperLine& line, const MountOptions& options,
                     std::ostream& err) {
  MOORING_ASSIGN_OR_RETURN(ClientOptions client_options,
                           manager_area::ClientOptionsFor(options.arguments.socket, options.wait));
  client_options.verbose = line.verbose;
  const Client::Limit limit{Client::Clock::now() + options.wait, options.wait, "-o wait="};
  const Client client(client_options, err);
  MOORING_RETURN_IF_ERROR(WaitForManager(client, limit));
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

// The ID of the mount at the path; 0 if there is none.
absl::StatusOr<std::uint64_t> MountIdAt(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const NamespaceView view, ViewOf(0));
  const TableMount* const mount = MountAtPath(view, path);
  return mount == nullptr ? std::uint64_t{0} : mount->id;
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

absl::StatusOr<std::string> DoUnmount(int argc, const char* const* argv, std::ostream& err) {
  MOORING_ASSIGN_OR_RETURN(const HelperLine line, ParseHelperLine(argc, argv, "flnrv", 1));
  MOORING_ASSIGN_OR_RETURN(const MountOptions options, ParseMountOptions(line.options));
  manager_area::Arguments arguments = options.arguments;
  arguments.path = line.words[0];
  arguments.allocation.clear();
  MOORING_ASSIGN_OR_RETURN(v1::DetachRequest request, DetachRequestOf(arguments));
  MOORING_ASSIGN_OR_RETURN(ClientOptions client_options,
                           manager_area::ClientOptionsFor(arguments.socket, options.wait));
  client_options.verbose = line.verbose;
  const Client client(client_options, err);
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t before, MountIdAt(request.attach_path()));
  request.set_must_exist(before == 0);  // CheckUnmounted judges a mount of somebody else
  MOORING_RETURN_IF_ERROR(CallWithSteps(client, &Manager::Stub::Detach, request).status());
  MOORING_RETURN_IF_ERROR(CheckUnmounted(request.attach_path(), before));
  return line.no_table ? "" : request.attach_path();
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

}  // namespace

Helper HelperNamed(std::string_view argv0) {
  const std::string_view name = argv0.substr(argv0.rfind('/') + 1);  // npos + 1 == 0
  if (name == "mount.csi") return Mount;
  return name == "umount.csi" ? Unmount : nullptr;
}

int Mount(int argc, const char* const* argv, const Streams& streams) {
  const absl::StatusOr<std::string> target = DoMount(argc, argv, streams.err);
  if (!target.ok()) return Report("mount.csi", target.status(), kMountUsage, streams.err);
  if (target->empty()) return kExitOk;
  return ReportTable("mount.csi", AddUnmountHelper(*target), "; unmount it with 'umount.csi DIRECTORY'", streams.err);
}

int Unmount(int argc, const char* const* argv, const Streams& streams) {
  const absl::StatusOr<std::string> target = DoUnmount(argc, argv, streams.err);
  if (!target.ok()) return Report("umount.csi", target.status(), kUnmountUsage, streams.err);
  if (target->empty()) return kExitOk;
  return ReportTable("umount.csi", RemoveUnmountHelper(*target), "", streams.err);
}

}  // namespace mooring::cli::mount_csi

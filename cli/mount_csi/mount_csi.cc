#include "cli/mount_csi/mount_csi.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/quote.h"
#include "base/status.h"
#include "cli/failure.h"
#include "cli/manager/attach_request.h"
#include "cli/manager/connection.h"
#include "cli/manager/steps.h"
#include "cli/mount_csi/helper_line.h"
#include "cli/mount_csi/utab.h"
#include "cli/mounts/paths.h"
#include "cli/run.h"
#include "cli/text.h"
#include "manager.grpc.pb.h"

namespace mooring::cli::mount_csi {
namespace {

using manager_area::CallWithSteps;
namespace v1 = ::mooring::manager::v1;
using v1::Manager;

constexpr std::chrono::milliseconds kBetweenTries{500};
constexpr char kMountUsage[] = "Usage: mount.csi VOLUME DIRECTORY [-sfnv] [-o OPTION,...]; see mount.csi(8)\n";
constexpr char kUnmountUsage[] = "Usage: umount.csi DIRECTORY [-flnrv]; see mount.csi(8)\n";

// A manager that is only starting is waited for: it answers as soon as its socket is there.
absl::Status WaitForManager(const Client& client, const Client::Limit& limit) {
  return client.CallWhenServed<Manager>(&Manager::Stub::GetManagerInfo, v1::GetManagerInfoRequest(), limit).status();
}

absl::Status CheckPlugin(const Client& client, const v1::VolumeKey& key, const std::string& plugin) {
  if (plugin.empty()) return absl::OkStatus();
  v1::GetVolumeRequest request;
  *request.mutable_key() = key;
  MOORING_ASSIGN_OR_RETURN(const v1::GetVolumeResponse response,
                           client.Call<Manager>(&Manager::Stub::GetVolume, request));
  if (response.volume().plugin() == plugin) return absl::OkStatus();
  return FailedPrecondition(fmt::format("the volume {} is of the plugin {}, not of {}", Quote(key.id()),
                                        Quote(response.volume().plugin()), Quote(plugin)));
}

// At boot everything comes at once: the plugin may be the last. UNAVAILABLE is what passes.
absl::Status AttachUntil(const Client::Limit& limit, const ClientOptions& options, const v1::AttachRequest& request,
                         std::ostream& err) {
  for (;;) {
    ClientOptions left = options;
    left.timeout = std::max(
        std::chrono::duration_cast<std::chrono::milliseconds>(limit.deadline - Client::Clock::now()), kBetweenTries);
    const Client client(left, err);
    const absl::Status status = CallWithSteps<v1::AttachReply>(client, &Manager::Stub::Attach, request).status();
    if (!absl::IsUnavailable(status) || Client::Clock::now() + kBetweenTries >= limit.deadline) return status;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

absl::StatusOr<v1::AttachRequest> RequestOf(const HelperLine& line, MountOptions& options) {
  options.arguments.id = line.words[0];
  options.arguments.path = line.words[1];
  if (options.arguments.allocation.empty()) {
    MOORING_ASSIGN_OR_RETURN(const std::string path, mounts_area::ResolvePath(line.words[1]));
    options.arguments.allocation = "mount:" + path;  // one of its own for each place in fstab
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
  MOORING_RETURN_IF_ERROR(AttachUntil(limit, client_options, request, err));
  return line.no_table ? absl::OkStatus() : AddUnmountHelper(request.attach_path());
}

absl::Status DoMount(int argc, const char* const* argv, std::ostream& err) {
  MOORING_ASSIGN_OR_RETURN(const HelperLine line, ParseHelperLine(argc, argv, "sfnv", 2));
  MOORING_ASSIGN_OR_RETURN(MountOptions options, ParseMountOptions(line.options));
  MOORING_ASSIGN_OR_RETURN(const v1::AttachRequest request, RequestOf(line, options));
  return line.fake ? absl::OkStatus() : MountAt(request, line, options, err);
}

absl::Status DoUnmount(int argc, const char* const* argv, std::ostream& err) {
  MOORING_ASSIGN_OR_RETURN(const HelperLine line, ParseHelperLine(argc, argv, "flnrv", 1));
  MOORING_ASSIGN_OR_RETURN(const MountOptions options, ParseMountOptions(line.options));
  manager_area::Arguments arguments = options.arguments;
  arguments.path = line.words[0];
  arguments.allocation.clear();
  MOORING_ASSIGN_OR_RETURN(const v1::DetachRequest request, DetachRequestOf(arguments));
  MOORING_ASSIGN_OR_RETURN(ClientOptions client_options,
                           manager_area::ClientOptionsFor(arguments.socket, options.wait));
  client_options.verbose = line.verbose;
  const Client client(client_options, err);
  MOORING_RETURN_IF_ERROR(CallWithSteps<v1::DetachReply>(client, &Manager::Stub::Detach, request).status());
  return line.no_table ? absl::OkStatus() : RemoveUnmountHelper(request.attach_path());
}

int Report(const char* name, const absl::Status& status, const char* usage, std::ostream& err) {
  if (status.ok()) return kExitOk;
  const bool wrong_line = ExitStatus(status) == kExitUsage;
  err << name << ": " << ToLine(status) << '\n' << (wrong_line ? usage : "");
  return wrong_line ? kUsage : kFailed;
}

}  // namespace

Helper HelperNamed(std::string_view argv0) {
  const std::string_view name = argv0.substr(argv0.rfind('/') + 1);  // npos + 1 is 0
  if (name == "mount.csi") return Mount;
  return name == "umount.csi" ? Unmount : nullptr;
}

int Mount(int argc, const char* const* argv, const Streams& streams) {
  return Report("mount.csi", DoMount(argc, argv, streams.err), kMountUsage, streams.err);
}

int Unmount(int argc, const char* const* argv, const Streams& streams) {
  return Report("umount.csi", DoUnmount(argc, argv, streams.err), kUnmountUsage, streams.err);
}

}  // namespace mooring::cli::mount_csi

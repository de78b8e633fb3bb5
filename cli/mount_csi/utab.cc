#include "cli/mount_csi/utab.h"

#include <libmount/libmount.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/status.h"
#include "mounter/mount_graph.h"

namespace mooring::cli::mount_csi {
namespace {

using Update = std::unique_ptr<libmnt_update, void (*)(libmnt_update*)>;
using Filesystem = std::unique_ptr<libmnt_fs, void (*)(libmnt_fs*)>;

constexpr char kOperation[] = "write the unmount helper into libmount's table for";

absl::Status Write(libmnt_update* update, const std::string& target) {
  const int error = mnt_update_table(update, nullptr);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(-error, kOperation, target);
}

}  // namespace

absl::Status AddUnmountHelper(const std::string& target) {
  MOORING_ASSIGN_OR_RETURN(const NamespaceView view, ViewOf(::getpid()));
  const TableMount* mount = MountAtPath(view, target);
  if (mount == nullptr) return absl::OkStatus();
  const Update update(mnt_new_update(), mnt_free_update);
  const Filesystem entry(mnt_new_fs(), mnt_unref_fs);
  if (update == nullptr || entry == nullptr) return ErrnoStatus(ENOMEM, kOperation, target);
  mnt_fs_set_source(entry.get(), mount->source.c_str());
  mnt_fs_set_target(entry.get(), target.c_str());
  mnt_fs_set_options(entry.get(), "uhelper=csi,helper=csi");
  const int error = mnt_update_set_fs(update.get(), 0, nullptr, entry.get());
  if (error > 0) return absl::OkStatus();  // libmount keeps no table here
  if (error < 0) return ErrnoStatus(-error, kOperation, target);
  // helper= is for root, uhelper= for users. The entry is found by source, target and root of the mount; libmount takes
  // "/" for the root of what is no bind.
  mnt_fs_set_root(mnt_update_get_fs(update.get()), mount->root.c_str());
  return Write(update.get(), target);
}

absl::Status RemoveUnmountHelper(const std::string& target) {
  const Update update(mnt_new_update(), mnt_free_update);
  if (update == nullptr) return ErrnoStatus(ENOMEM, kOperation, target);
  const int error = mnt_update_set_fs(update.get(), 0, target.c_str(), nullptr);
  if (error > 0) return absl::OkStatus();
  return error < 0 ? ErrnoStatus(-error, kOperation, target) : Write(update.get(), target);
}

}  // namespace mooring::cli::mount_csi

#include "cli/mount_csi/utab.h"

#include <libmount/libmount.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "cli/mounts/mount_graph.h"

namespace mooring::cli::mount_csi {
namespace {

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

}  // namespace

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

absl::Status RemoveUnmountHelper(const std::string& target) {
  const Update update(mnt_new_update(), mnt_free_update);
  if (update == nullptr) return ErrnoStatus(ENOMEM, kOperation, target);
  const int error = mnt_update_set_fs(update.get(), 0, target.c_str(), nullptr);
  if (error > 0) return absl::OkStatus();
  return error < 0 ? ErrnoStatus(-error, kOperation, target) : Write(update.get(), target);
}

}  // namespace mooring::cli::mount_csi

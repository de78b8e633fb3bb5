#include "mounter/table/mount_info_file.h"

#include <fmt/format.h>
#include <libmount/libmount.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "mounter/sys/device_name.h"

namespace mooring {
namespace {

// "shared:12 master:3" -> 12 for "shared:".
std::uint64_t GroupAfter(std::string_view fields, std::string_view key) {
  const std::size_t at = fields.find(key);
  std::uint64_t group = 0;
  if (at != std::string_view::npos)
    std::from_chars(fields.data() + at + key.size(), fields.data() + fields.size(), group);
  return group;
}

std::string_view Text(const char* text) { return text == nullptr ? std::string_view() : std::string_view(text); }

TableMount FromLibmount(libmnt_fs* fs) {
  const std::string_view fields = Text(mnt_fs_get_optional_fields(fs));
  TableMount info;
  info.id = static_cast<std::uint64_t>(mnt_fs_get_id(fs));
  info.target = Text(mnt_fs_get_target(fs));
  info.root = Text(mnt_fs_get_root(fs));
  info.fs_type = Text(mnt_fs_get_fstype(fs));
  info.device = mnt_fs_get_devno(fs);
  info.flags = FlagsOfMountInfo(Text(mnt_fs_get_vfs_options(fs)));
  info.superblock_read_only = HasWord(Text(mnt_fs_get_fs_options(fs)), "ro");
  info.ids_mapped = HasWord(Text(mnt_fs_get_vfs_options(fs)), "idmapped");
  info.lazytime = HasWord(Text(mnt_fs_get_fs_options(fs)), "lazytime");
  info.peer_group = GroupAfter(fields, "shared:");
  info.master = GroupAfter(fields, "master:");
  info.propagate_from = GroupAfter(fields, "propagate_from:");
  info.unbindable = fields.find("unbindable") != std::string_view::npos;
  info.parent = static_cast<std::uint64_t>(mnt_fs_get_parent_id(fs));
  info.source = Text(mnt_fs_get_source(fs));
  FindNfsRoot(info);
  if (info.fs_type == "btrfs") info.device = DeviceNamed(info.source).value_or(info.device);
  return info;
}

using Table = std::unique_ptr<libmnt_table, void (*)(libmnt_table*)>;

std::vector<TableMount> MountsOf(const Table& table) {
  const std::unique_ptr<libmnt_iter, void (*)(libmnt_iter*)> at(mnt_new_iter(MNT_ITER_FORWARD), mnt_free_iter);
  std::vector<TableMount> mounts;
  libmnt_fs* fs = nullptr;
  while (at != nullptr && mnt_table_next_fs(table.get(), at.get(), &fs) == 0) mounts.push_back(FromLibmount(fs));
  return mounts;
}

}  // namespace

void FindNfsRoot(MountInfo& info) {
  if ((info.fs_type != kNfsFsType && info.fs_type != "nfs") || info.root != "/") return;
  const std::size_t colon = info.source.find(":/");
  if (colon != std::string::npos) info.root = info.source.substr(colon + 1);
}

absl::StatusOr<std::vector<TableMount>> ParseMountInfo(const std::string& text) {
  if (text.empty()) return std::vector<TableMount>();
  std::string copy = text;  // fmemopen(3) takes no const
  const std::unique_ptr<FILE, int (*)(FILE*)> stream(::fmemopen(copy.data(), copy.size(), "r"), ::fclose);
  const Table table(mnt_new_table(), mnt_unref_table);
  if (stream == nullptr || table == nullptr) return ErrnoStatus(errno, "read mountinfo");
  if (mnt_table_parse_stream(table.get(), stream.get(), "mountinfo") != 0) {
    return Internal("the text is not in the format of mountinfo");
  }
  return MountsOf(table);
}

absl::StatusOr<std::vector<TableMount>> ReadMountInfo(const std::string& path) {
  const Table table(mnt_new_table_from_file(path.c_str()), mnt_unref_table);
  if (table == nullptr) return ErrnoStatus(errno, "read", path);
  return MountsOf(table);
}

std::string PropagationText(const TableMount& mount) {
  std::string text;
  if (mount.unbindable) text = "unbindable";
  if (mount.master != 0) text = fmt::format("slave of {}", mount.master);
  if (mount.shared()) text += fmt::format("{}shared in peer group {}", text.empty() ? "" : ", ", mount.peer_group);
  return text.empty() ? "private" : text;
}

}  // namespace mooring

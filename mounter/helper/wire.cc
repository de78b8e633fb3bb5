#include "mounter/helper/wire.h"

#include <cstddef>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::wire {
namespace {

absl::Status UnknownValue(const char* what, int value) {
  return InvalidArgument("a request to the mount helper has the unknown {} {}", what, value);
}

// Enumerations have the same order on both sides. Tests convert every value.
template <typename Enum, typename Message>
absl::StatusOr<Enum> EnumFrom(Message value, Enum last, const char* what) {
  const int number = static_cast<int>(value);
  if (number < 0 || number > static_cast<int>(last)) return UnknownValue(what, number);
  return static_cast<Enum>(number);
}

template <typename Message, typename Enum>
Message EnumTo(Enum value) {
  return static_cast<Message>(static_cast<int>(value));
}

absl::StatusOr<MountFlags> From(const pb::MountFlags& message) {
  const MountFlags flags = FlagsOfAttributes(message.attributes());
  if (AttributesOf(flags) == message.attributes()) return flags;
  return InvalidArgument("a request to the mount helper has the unknown mount attributes {:#x}", message.attributes());
}

void To(const MountFlags& flags, pb::MountFlags& message) { message.set_attributes(AttributesOf(flags)); }

absl::StatusOr<ListedMount> From(const pb::MountInfo& message) {
  ListedMount mount;
  mount.id = message.id();
  mount.target = message.target();
  mount.root = message.root();
  mount.fs_type = message.fs_type();
  mount.source = message.source();
  mount.device = message.device();
  MOORING_ASSIGN_OR_RETURN(mount.flags, From(message.flags()));
  mount.superblock_read_only = message.superblock_read_only();
  mount.peer_group = message.peer_group();
  mount.master = message.master();
  mount.ids_mapped = message.ids_mapped();
  return mount;
}

using OptionMessages = google::protobuf::RepeatedPtrField<pb::FilesystemOption>;

absl::StatusOr<std::vector<FilesystemOption>> From(const OptionMessages& messages) {
  if (messages.size() > kMostOptions) {
    return InvalidArgument("a request to the mount helper has {} options", messages.size());
  }
  std::vector<FilesystemOption> options;
  for (const pb::FilesystemOption& option : messages) {
    MOORING_RETURN_IF_ERROR(CheckTexts({&option.key(), &option.value()}));
    options.push_back({option.key(), std::nullopt});
    if (option.has_value()) options.back().value = option.value();
  }
  return options;
}

void To(const std::vector<FilesystemOption>& options, OptionMessages& messages) {
  for (const FilesystemOption& option : options) {
    pb::FilesystemOption& added = *messages.Add();
    added.set_key(option.key);
    if (option.value) added.set_value(*option.value);
  }
}

void To(const MountInfo& info, pb::MountInfo& message) {
  message.set_id(info.id);
  message.set_target(info.target);
  message.set_root(info.root);
  message.set_fs_type(info.fs_type);
  message.set_device(info.device);
  To(info.flags, *message.mutable_flags());
  message.set_superblock_read_only(info.superblock_read_only);
  message.set_source(info.source);
}

void To(const ListedMount& listed, pb::MountInfo& message) {
  To(static_cast<const MountInfo&>(listed), message);
  message.set_peer_group(listed.peer_group);
  message.set_master(listed.master);
  message.set_ids_mapped(listed.ids_mapped);
}

Usage From(const pb::Usage& message) { return {message.total(), message.used(), message.available()}; }

void To(const Usage& usage, pb::Usage& message) {
  message.set_total(usage.total);
  message.set_used(usage.used);
  message.set_available(usage.available);
}

NewRoot From(const pb::NewRoot& message) {
  NewRoot root;
  if (message.has_uid()) root.uid = message.uid();
  if (message.has_gid()) root.gid = message.gid();
  if (message.has_mode()) root.mode = message.mode();
  return root;
}

void To(const NewRoot& root, pb::NewRoot& message) {
  if (root.uid) message.set_uid(*root.uid);
  if (root.gid) message.set_gid(*root.gid);
  if (root.mode) message.set_mode(*root.mode);
}

}  // namespace

absl::Status CheckTexts(std::initializer_list<const std::string*> texts) {
  for (const std::string* text : texts) {
    if (text->size() > kMostText) {
      return InvalidArgument("a request to the mount helper has a text of {} bytes", text->size());
    }
    if (text->find('\0') != std::string::npos) {
      return InvalidArgument("a request to the mount helper has a NUL in the text {}", Quote(*text, 64));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> From(const std::string& text) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&text}));
  return text;
}

absl::StatusOr<MountRequest> From(const pb::MountRequest& message) {
  MOORING_RETURN_IF_ERROR(
      CheckTexts({&message.source(), &message.label(), &message.fs_type(), &message.target(), &message.idmap()}));
  MountRequest request;
  request.source = message.source();
  request.label = message.label();
  request.fs_type = message.fs_type();
  request.target = message.target();
  MOORING_ASSIGN_OR_RETURN(request.flags, From(message.flags()));
  MOORING_ASSIGN_OR_RETURN(request.options, From(message.options()));
  MOORING_ASSIGN_OR_RETURN(request.propagation, EnumFrom(message.propagation(), Propagation::kShared, "propagation"));
  if (message.has_group()) request.group = message.group();
  if (message.has_new_root()) request.new_root = From(message.new_root());
  request.idmap = message.idmap();
  return request;
}

absl::StatusOr<BindRequest> From(const pb::BindRequest& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.source(), &message.target(), &message.idmap()}));
  BindRequest request;
  request.source = message.source();
  request.target = message.target();
  MOORING_ASSIGN_OR_RETURN(request.target_kind, EnumFrom(message.target_kind(), TargetKind::kFile, "target kind"));
  MOORING_ASSIGN_OR_RETURN(request.flags, From(message.flags()));
  request.recursive = message.recursive();
  MOORING_ASSIGN_OR_RETURN(request.propagation, EnumFrom(message.propagation(), Propagation::kShared, "propagation"));
  if (message.has_group()) request.group = message.group();
  if (message.has_new_root()) request.new_root = From(message.new_root());
  request.idmap = message.idmap();
  return request;
}

absl::StatusOr<UnmountRequest> From(const pb::UnmountRequest& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.target()}));
  return UnmountRequest{message.target(), message.remove_target()};
}

absl::StatusOr<ChangeRequest> From(const pb::ChangeRequest& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.target()}));
  ChangeRequest request;
  request.target = message.target();
  if (message.has_flags()) {
    MOORING_ASSIGN_OR_RETURN(request.flags, From(message.flags()));
  }
  MOORING_ASSIGN_OR_RETURN(request.options, From(message.options()));
  MOORING_ASSIGN_OR_RETURN(request.propagation, EnumFrom(message.propagation(), Propagation::kShared, "propagation"));
  return request;
}

absl::StatusOr<std::vector<ImageCopy>> From(const pb::CopyRequest& message) {
  if (message.copies_size() > kMostCopies) {
    return InvalidArgument("a request to the mount helper has {} copies", message.copies_size());
  }
  std::vector<ImageCopy> copies;
  for (const pb::ImageCopy& copy : message.copies()) {
    MOORING_RETURN_IF_ERROR(CheckTexts({&copy.source(), &copy.destination(), &copy.renew_fs_type()}));
    copies.push_back({copy.source(), copy.destination(), copy.bytes(), copy.renew_fs_type()});
  }
  return copies;
}

absl::StatusOr<std::pair<std::string, std::string>> From(const pb::CopyTreeRequest& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.source(), &message.destination()}));
  return std::pair(message.source(), message.destination());
}

absl::StatusOr<Needs> From(const pb::NeedsRequest& message) {
  if (message.seen_outside_size() > kMostOptions) {
    return InvalidArgument("a request to the mount helper has {} directories", message.seen_outside_size());
  }
  Needs needs = {.loop_devices = message.loop_devices()};
  for (const std::string& directory : message.seen_outside()) {
    MOORING_RETURN_IF_ERROR(CheckTexts({&directory}));
    needs.seen_outside.push_back(directory);
  }
  return needs;
}

absl::StatusOr<FormatRequest> From(const pb::FormatRequest& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.path(), &message.fs_type()}));
  return FormatRequest{message.path(),
                       message.fs_type(),
                       {message.inode_size(), message.bytes_per_inode(), message.max_inode_percent()}};
}

absl::StatusOr<std::pair<std::string, std::string>> From(const pb::FilesystemRequest& message) {
  MOORING_RETURN_IF_ERROR(CheckTexts({&message.path(), &message.fs_type()}));
  return std::pair(message.path(), message.fs_type());
}

absl::StatusOr<PathInfo> From(const pb::PathInfo& message) {
  PathInfo info;
  MOORING_ASSIGN_OR_RETURN(info.kind, EnumFrom(message.kind(), PathInfo::Kind::kOther, "path kind"));
  info.empty = message.empty();
  info.device = message.device();
  if (message.has_mount()) {
    MOORING_ASSIGN_OR_RETURN(info.mount, From(message.mount()));
  }
  if (message.has_loop()) {
    MOORING_ASSIGN_OR_RETURN(info.loop, From(message.loop()));
  }
  info.failure = message.failure();
  info.inode = message.inode();
  info.inode_device = message.inode_device();
  return info;
}

absl::StatusOr<StatsInfo> From(const pb::StatsInfo& message) {
  return StatsInfo{From(message.bytes()), From(message.inodes()), message.unused_bytes()};
}

absl::StatusOr<FilesystemInfo> From(const pb::FilesystemInfo& message) {
  // proto3 accepts any number: an unknown one is foreign, because only a known "empty" may lead to a format.
  FilesystemInfo::Content content = FilesystemInfo::Content::kForeign;
  if (message.content() == pb::FilesystemInfo::EMPTY) content = FilesystemInfo::Content::kEmpty;
  if (message.content() == pb::FilesystemInfo::FILESYSTEM) content = FilesystemInfo::Content::kFilesystem;
  return FilesystemInfo{
      content, message.type(), message.size_bytes(), message.device_bytes(), message.needs_check(), message.whole()};
}

absl::StatusOr<std::vector<ListedMount>> From(const pb::MountInfos& message) {
  std::vector<ListedMount> mounts;
  mounts.reserve(static_cast<std::size_t>(message.mounts_size()));
  for (const pb::MountInfo& mount : message.mounts()) {
    MOORING_ASSIGN_OR_RETURN(ListedMount listed, From(mount));
    mounts.push_back(std::move(listed));
  }
  return mounts;
}

void To(const std::string& text, std::string& message) { message = text; }

void To(const MountRequest& request, pb::MountRequest& message) {
  message.set_source(request.source);
  message.set_label(request.label);
  message.set_fs_type(request.fs_type);
  message.set_target(request.target);
  To(request.flags, *message.mutable_flags());
  To(request.options, *message.mutable_options());
  message.set_propagation(EnumTo<pb::Propagation>(request.propagation));
  if (request.group) message.set_group(*request.group);
  if (request.new_root) To(*request.new_root, *message.mutable_new_root());
  message.set_idmap(request.idmap);
}

void To(const BindRequest& request, pb::BindRequest& message) {
  message.set_source(request.source);
  message.set_target(request.target);
  message.set_target_kind(EnumTo<pb::TargetKind>(request.target_kind));
  To(request.flags, *message.mutable_flags());
  message.set_recursive(request.recursive);
  message.set_propagation(EnumTo<pb::Propagation>(request.propagation));
  if (request.group) message.set_group(*request.group);
  if (request.new_root) To(*request.new_root, *message.mutable_new_root());
  message.set_idmap(request.idmap);
}

void To(const UnmountRequest& request, pb::UnmountRequest& message) {
  message.set_target(request.target);
  message.set_remove_target(request.remove_target);
}

void To(const ChangeRequest& request, pb::ChangeRequest& message) {
  message.set_target(request.target);
  if (request.flags) To(*request.flags, *message.mutable_flags());
  To(request.options, *message.mutable_options());
  message.set_propagation(EnumTo<pb::Propagation>(request.propagation));
}

void To(const std::vector<ImageCopy>& copies, pb::CopyRequest& message) {
  for (const ImageCopy& copy : copies) {
    pb::ImageCopy& added = *message.add_copies();
    added.set_source(copy.source);
    added.set_destination(copy.destination);
    added.set_bytes(copy.bytes);
    added.set_renew_fs_type(copy.renew_fs_type);
  }
}

void To(const std::string& source, const std::string& destination, pb::CopyTreeRequest& message) {
  message.set_source(source);
  message.set_destination(destination);
}

void To(const Needs& needs, pb::NeedsRequest& message) {
  message.set_loop_devices(needs.loop_devices);
  for (const std::string& directory : needs.seen_outside) message.add_seen_outside(directory);
}

void To(const FormatRequest& request, pb::FormatRequest& message) {
  message.set_path(request.path);
  message.set_fs_type(request.fs_type);
  message.set_inode_size(request.options.inode_size);
  message.set_bytes_per_inode(request.options.bytes_per_inode);
  message.set_max_inode_percent(request.options.max_inode_percent);
}

void To(const std::string& path, const std::string& fs_type, pb::FilesystemRequest& message) {
  message.set_path(path);
  message.set_fs_type(fs_type);
}

void To(const PathInfo& info, pb::PathInfo& message) {
  message.set_kind(EnumTo<pb::PathInfo::Kind>(info.kind));
  message.set_empty(info.empty);
  message.set_device(info.device);
  if (info.mount) To(*info.mount, *message.mutable_mount());
  if (info.loop) To(*info.loop, *message.mutable_loop());
  message.set_failure(info.failure);
  message.set_inode(info.inode);
  message.set_inode_device(info.inode_device);
}

void To(const StatsInfo& info, pb::StatsInfo& message) {
  To(info.bytes, *message.mutable_bytes());
  To(info.inodes, *message.mutable_inodes());
  message.set_unused_bytes(info.unused_bytes);
}

void To(const FilesystemInfo& info, pb::FilesystemInfo& message) {
  switch (info.content) {
    case FilesystemInfo::Content::kEmpty:
      message.set_content(pb::FilesystemInfo::EMPTY);
      break;
    case FilesystemInfo::Content::kFilesystem:
      message.set_content(pb::FilesystemInfo::FILESYSTEM);
      break;
    case FilesystemInfo::Content::kForeign:
      message.set_content(pb::FilesystemInfo::FOREIGN);
      break;
  }
  message.set_type(info.type);
  message.set_size_bytes(info.size_bytes);
  message.set_device_bytes(info.device_bytes);
  message.set_needs_check(info.needs_check);
  message.set_whole(info.whole);
}

void To(const std::vector<ListedMount>& infos, pb::MountInfos& message) {
  for (const ListedMount& info : infos) To(info, *message.add_mounts());
}

absl::Status StatusOf(const pb::Answer& answer) {
  return absl::Status(static_cast<absl::StatusCode>(answer.code()), answer.message());
}

void To(const absl::Status& status, pb::Answer& answer) {
  answer.set_code(static_cast<int>(status.code()));
  answer.set_message(Message(status));
}

}  // namespace mooring::wire

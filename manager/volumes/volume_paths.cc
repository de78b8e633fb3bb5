#include "manager/volumes/volume_paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/file/path.h"
#include "base/hash.h"
#include "base/status.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "mounter/mount_words.h"

namespace mooring::manager {
namespace {

MountOptions Sorted(MountOptions options) {
  std::sort(options.flags.begin(), options.flags.end());
  return options;
}

std::string ToText(const MountOptions& options) {
  std::string text = options.fs_type;
  for (const std::string& flag : Sorted(options).flags) text += '\0' + flag;
  return text;
}

// Returns errno, or 0 if the directory exists now.
int MakeWithParents(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return 0;
  if (errno != ENOENT) return errno;
  if (const int error = MakeWithParents(std::string(ParentOf(path))); error != 0) return error;
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

}  // namespace

std::string UsageName(bool read_only, const Capability& capability) {
  return fmt::format("{}-{}-{}", read_only ? "ro" : "rw", ToString(capability.attachment), ToString(capability.access));
}

bool SaysReadOnly(const MountOptions& options) {
  return std::find(options.flags.begin(), options.flags.end(), "ro") != options.flags.end();
}

MountOptions Override(const MountOptions& of_volume, const MountOptions& of_request) {
  return {.fs_type = of_request.fs_type.empty() ? of_volume.fs_type : of_request.fs_type,
          .flags = of_request.flags.empty() ? of_volume.flags : of_request.flags};
}

MountOptions StagedOptions(const MountOptions& of_volume, MountOptions of_request) {
  if (!SaysReadOnly(of_volume)) std::erase(of_request.flags, "ro");
  return Override(of_volume, of_request);
}

bool AreEqual(const MountOptions& a, const MountOptions& b) { return Sorted(a) == Sorted(b); }

std::string ShownText(const MountOptions& options) {
  std::vector<std::string> words;
  if (!options.fs_type.empty()) words.push_back(options.fs_type);
  for (const std::string& element : options.flags) {
    for (const std::string& flag : SplitMountWords(element)) {
      const std::size_t equals = flag.find('=');
      words.push_back(equals == std::string::npos ? flag : flag.substr(0, equals) + "=***");
    }
  }
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

std::string StagingsOf(const std::string& root, const std::string& plugin, const VolumeKey& volume) {
  return fmt::format("{}/staging/{}/{}/{}", root, Escape(plugin), Escape(volume.ns), Escape(volume.id));
}

std::string TargetsOf(const std::string& root, const VolumeKey& volume) {
  return fmt::format("{}/per-alloc/{}/{}", root, Escape(volume.ns), Escape(volume.id));
}

std::string StagingPath(const std::string& root, const std::string& plugin, const VolumeKey& volume,
                        const std::string& external_id, AttachmentMode attachment, const MountOptions& options) {
  const std::string path = fmt::format("{}/{}", StagingsOf(root, plugin, volume), ToString(attachment));
  if (external_id.empty() && options == MountOptions()) return path;
  return fmt::format("{}-{:016x}", path, HashOf(external_id + '\0' + ToText(options)));
}

std::string TargetPath(const std::string& root, const std::string& allocation, const std::string& request,
                       const VolumeKey& volume, const std::string& usage) {
  return fmt::format("{}/{}/{}/{}", TargetsOf(root, volume), Escape(allocation), Escape(request), usage);
}

absl::Status MakeDirectories(const std::string& path) {
  constexpr int kAttempts = 64;  // each may lose a race against a volume that removes a common parent
  int error = MakeWithParents(path);
  for (int attempt = 1; attempt < kAttempts && error == ENOENT; ++attempt) error = MakeWithParents(path);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "make the directory", path);
}

void RemoveEmptyDirectories(std::string path, const std::string& top) {
  while (path != top && IsBelow(path, top)) {
    if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return;
    path = ParentOf(path);
  }
}

}  // namespace mooring::manager

#include "plugin/backends/tmpfs/tmpfs_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mounter.h"
#include "plugin/model/volume_id.h"
#include "plugin/model/volume_mount.h"
#include "plugin/model/volume_size.h"

namespace mooring {
namespace {

class TmpfsBackend final : public Backend {
 public:
  // `directory` is absolute; it and its parent are created if they are missing. `bytes`: the limit of the sum of all
  // volumes, which the catalog enforces.
  TmpfsBackend(std::string directory, std::uint64_t bytes, Mounts& mounts)
      : directory_(std::move(directory)), bytes_(bytes), mounts_(mounts) {}

  absl::Status Create(const VolumeDraft& draft) override;
  absl::Status CheckUnused(const std::string& id) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Grow(const std::string& id, std::uint64_t bytes) override;
  absl::StatusOr<VolumeLocation> Locate(const std::string& id) const override;  // without a path
  absl::StatusOr<BackendCapacity> Capacity() const override;
  // The data is only in the mount, and CheckUnused keeps a mounted volume.
  bool HoldsData(const std::string& /*id*/) const override { return false; }
  absl::StatusOr<std::vector<std::string>> Reconcile() override;

 private:
  std::string PathOf(const std::string& id) const { return directory_ + "/" + id; }
  absl::Status MakeDirectories() const;
  absl::Status Write(const std::string& id, std::uint64_t bytes) const;

  const std::string directory_;
  const std::uint64_t bytes_;
  Mounts& mounts_;
};

absl::Status TmpfsBackend::MakeDirectories() const {
  MOORING_RETURN_IF_ERROR(MakePrivateDirectory(std::string(ParentOf(directory_))));
  return MakePrivateDirectory(directory_);
}

// The size is set in one step, so the file of an unfinished volume is empty, and the next Create sets its size.
absl::Status TmpfsBackend::Write(const std::string& id, std::uint64_t bytes) const {
  const std::string path = PathOf(id);
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!fd.ok()) return ErrnoStatus(errno, "record a volume in", path);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 || ::fsync(fd.get()) != 0) {
    return ErrnoStatus(errno, fmt::format("record {} in", SizeText(bytes)), path);
  }
  return SyncDirectoryOf(path);
}

absl::Status TmpfsBackend::Create(const VolumeDraft& draft) {
  if (!IsVolumeId(draft.id)) return Internal("{} is no id of a volume", Quote(draft.id));
  MOORING_RETURN_IF_ERROR(MakeDirectories());
  return Write(draft.id, draft.bytes);
}

absl::Status TmpfsBackend::CheckUnused(const std::string& id) { return CheckNotMounted(mounts_, id); }

absl::Status TmpfsBackend::Delete(const std::string& id) {
  if (!IsVolumeId(id)) return absl::OkStatus();
  MOORING_RETURN_IF_ERROR(CheckUnused(id));
  const std::string path = PathOf(id);
  if (::unlink(path.c_str()) != 0) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "remove", path);
  return SyncDirectoryOf(path);
}

absl::Status TmpfsBackend::Grow(const std::string& id, std::uint64_t bytes) {
  MOORING_ASSIGN_OR_RETURN(const VolumeLocation now, Locate(id));
  return now.bytes >= bytes ? absl::OkStatus() : Write(id, bytes);
}

absl::StatusOr<VolumeLocation> TmpfsBackend::Locate(const std::string& id) const {
  if (!IsVolumeId(id)) return NotFound("volume {} does not exist", Quote(id));
  struct stat found = {};
  const std::string path = PathOf(id);
  if (::lstat(path.c_str(), &found) != 0) return ErrnoStatus(errno, "find the record of the volume", path);
  if (!S_ISREG(found.st_mode)) return Internal("{} is no regular file", Quote(path));
  return VolumeLocation{.path = "", .bytes = static_cast<std::uint64_t>(found.st_size)};
}

absl::StatusOr<BackendCapacity> TmpfsBackend::Capacity() const {
  return BackendCapacity{.total = bytes_, .available = bytes_, .largest_volume = bytes_ - bytes_ % kVolumeGranularity};
}

absl::StatusOr<std::vector<std::string>> TmpfsBackend::Reconcile() {
  MOORING_RETURN_IF_ERROR(MakeDirectories());
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> ids, EntriesOf(directory_));
  std::erase_if(ids, [](const std::string& id) { return !IsVolumeId(id); });
  return ids;
}

std::uint64_t HalfOfMemory() {
  struct sysinfo info = {};
  if (::sysinfo(&info) != 0) return 0;
  return std::uint64_t{info.totalram} * info.mem_unit / 2;
}

absl::Status CompleteTmpfsPool(PoolConfig& pool) {
  if (pool.bytes == 0) pool.bytes = HalfOfMemory();
  pool.overcommit = 1;  // the pool's volumes never have more memory than this together
  return absl::OkStatus();
}

std::unique_ptr<Backend> MakeTmpfsBackend(const PoolConfig& pool, const std::string& directory,
                                          const BackendParts& parts) {
  return std::make_unique<TmpfsBackend>(directory, pool.bytes, parts.mounter);
}

}  // namespace

const BackendType& TmpfsBackendType() {
  static const BackendType kType = {
      .traits = {.name = "tmpfs",
                 .staging = Staging::kMemory,
                 .grows = true,
                 .enforces_size = true,
                 .takes_size_at_once = true},
      .pool_keys = {"size"},
      .complete = CompleteTmpfsPool,
      .directory = [](const PoolConfig& pool,
                      const std::string& state_dir) { return fmt::format("{}/memory/{}", state_dir, pool.name); },
      .make = MakeTmpfsBackend,
      .allow = [](const PoolConfig& pool,
                  PoolAccess& access) { access.most_memory = std::max(access.most_memory, pool.bytes); }};
  return kType;
}

}  // namespace mooring

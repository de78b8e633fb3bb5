#include "plugin/process/shared_pools.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "base/file/directory.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/catalog/store/catalog_files.h"
#include "plugin/catalog/store/shared_nodes.h"
#include "plugin/process/directories.h"

namespace mooring {
namespace {

constexpr std::chrono::seconds kPatience{30};  // NFS frees the locks of a dead host after a while

// mounter/loop/attachment_lock.h: images on FUSE are not locked.
absl::Status CheckFilesystem(const std::string& directory) {
  struct statfs filesystem = {};
  if (::statfs(directory.c_str(), &filesystem) != 0) {
    return ErrnoStatus(errno, "look at the filesystem of", directory);
  }
  if (filesystem.f_type != FUSE_SUPER_MAGIC) return absl::OkStatus();
  return FailedPrecondition(
      "{} lies on a FUSE filesystem, where the lock of an image would outlive its user: share a pool on NFSv4, CephFS "
      "or GFS2, or leave shared=true out",
      Quote(directory));
}

// Held while this node is added, so that a filesystem without locks is found at the start.
absl::Status AddNode(const Config& config, const std::string& pool, const std::string& tag, CatalogStore& catalog,
                     KeyedLocks& locks) {
  const auto hold = locks.Acquire(KeyIn(tag, "start"), "pool", std::chrono::steady_clock::now() + kPatience);
  if (!hold.ok() && !absl::IsAborted(hold.status())) {
    return FailedPrecondition("{}: its filesystem needs locks that work between hosts", Message(hold.status()));
  }
  MOORING_RETURN_IF_ERROR(hold.status());
  if (!config.serves_node()) return absl::OkStatus();
  return SharedNodes(catalog.files()).Put(pool, {.id = config.node_id, .max_volumes = config.max_volumes});
}

absl::StatusOr<std::string> OpenPool(const Config& config, const PoolConfig& pool, CatalogStore& catalog,
                                     KeyedLocks& locks) {
  MOORING_RETURN_IF_ERROR(CheckFilesystem(pool.path));
  const std::string directory = pool.path + "/.mooring", file = directory + "/catalog.db";
  MOORING_RETURN_IF_ERROR(MakePrivateDirectory(directory));
  MOORING_RETURN_IF_ERROR(SyncDirectoryOf(directory));
  MOORING_ASSIGN_OR_RETURN(const std::string tag, catalog.files()->AddShared(file, pool.name, [&] {
    return CheckSharedBeginsEmpty(file, pool);
  }));
  MOORING_RETURN_IF_ERROR(
      locks.AddFile(directory + "/lock", [tag](const std::string& key) { return TagOfKey(key) == tag; }));
  MOORING_RETURN_IF_ERROR(AddNode(config, pool.name, tag, catalog, locks));
  return tag;
}

}  // namespace

absl::StatusOr<SharedTags> OpenSharedPools(const Config& config, CatalogStore& catalog, KeyedLocks& locks) {
  std::vector<PoolConfig> pools = config.pools;
  std::erase_if(pools, [](const PoolConfig& pool) { return !pool.shared; });
  // Lists go through the pools in this order. Tokens of lists outlive a restart with the flags in another order.
  std::sort(pools.begin(), pools.end(), [](const PoolConfig& a, const PoolConfig& b) { return a.name < b.name; });
  SharedTags tags;
  for (const PoolConfig& pool : pools) {
    const absl::StatusOr<std::string> tag = OpenPool(config, pool, catalog, locks);
    if (!tag.ok()) return Annotate(tag.status(), fmt::format("pool {}", pool.name));
    tags.emplace(pool.name, *tag);
  }
  return tags;
}

}  // namespace mooring

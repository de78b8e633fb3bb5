#include "plugin/process/shared_pools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "base/file/directory.h"
#include "base/file/file_lock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/backends/registry.h"
#include "plugin/catalog/catalog_locks.h"
#include "plugin/catalog/store/catalog_files.h"
#include "plugin/catalog/store/shared_nodes.h"
#include "plugin/process/directories.h"

namespace mooring {
namespace {

// Options of NFS, and of GFS2 and OCFS2, with which fcntl(2) asks no other host. With `local_lock=flock` it does.
bool KeepsLocksHere(const std::string& option) {
  return option == "nolock" || option == "local_lock=all" || option == "local_lock=posix" || option == "localflocks";
}

// The first such option of a line of mountinfo, which are in its last field. Empty: there is none.
std::string LocalLockOption(const std::string& line) {
  std::istringstream options(line.substr(line.rfind(' ') + 1));
  for (std::string option; std::getline(options, option, ',');) {
    if (KeepsLocksHere(option)) return option;
  }
  return "";
}

bool IsMountOf(const std::string& line, const std::string& device) {
  std::istringstream fields(line);
  std::string id, parent, number;
  fields >> id >> parent >> number;
  return number == device;
}

constexpr std::chrono::seconds kLockPatience{30};  // NFS frees the locks of a dead host after a while

struct OpenedPool {
  std::string tag;
  UniqueFd presence;  // not open: this plugin serves no node
};

// The byte of the node, locked: alone, or together with other plugins of the node. ABORTED: another plugin has it.
absl::StatusOr<UniqueFd> LockPresence(const std::string& file, const std::string& node_id, bool alone) {
  UniqueFd fd(::open(file.c_str(), (alone ? O_RDWR : O_RDONLY) | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return ErrnoStatus(errno, "open", file);
  const auto byte = static_cast<off_t>(HashOf(node_id) >> 2U);
  MOORING_RETURN_IF_ERROR(LockByte(fd, byte, file, std::chrono::milliseconds(0)));
  return fd;
}

// Volumes of a full pool can still be used and deleted.
absl::Status PutNode(CatalogDatabase& records, const std::optional<SharedNodes::Node>& known,
                     const SharedNodes::Node& node, const std::string& pool) {
  if (known == node) return absl::OkStatus();
  const absl::Status put = SharedNodes::Put(records, node);
  if (!known || !absl::IsResourceExhausted(put)) return put;
  log::Warning("this node is not renewed in a full pool", {{"pool", pool}, {"cause", Message(put)}});
  return absl::OkStatus();
}

// Two hosts with one id would take each other's volumes for their own. A host that is started again has a new boot id,
// and no plugin from before. The caller holds the lock of starts.
absl::StatusOr<UniqueFd> AddNode(const Config& config, const std::string& boot_id, const PoolConfig& pool,
                                 CatalogDatabase& records) {
  const std::string file = pool.path + std::string(kSharedRecords) + "/nodes";
  MOORING_ASSIGN_OR_RETURN(const std::optional<SharedNodes::Node> known, SharedNodes::Get(records, config.node_id));
  if (known && known->boot_id != boot_id) {
    const absl::Status alone = LockPresence(file, config.node_id, true).status();
    if (absl::IsAborted(alone)) {
      return FailedPrecondition(
          "another host has the node id {}, and its plugin runs: give each host an id of its own (--node-id). If this "
          "host has just been started again, wait until the file server has freed its locks of before",
          Quote(config.node_id));
    }
    MOORING_RETURN_IF_ERROR(alone);
  }
  MOORING_RETURN_IF_ERROR(PutNode(
      records, known, {.id = config.node_id, .max_volumes = config.max_volumes, .boot_id = boot_id}, pool.name));
  return LockPresence(file, config.node_id, false);
}

// The lock of starts also finds a filesystem without locks.
absl::StatusOr<UniqueFd> EnterPool(const Config& config, const std::string& boot_id, const PoolConfig& pool,
                                   const std::string& tag, CatalogStore& catalog, KeyedLocks& locks) {
  const auto hold = locks.Acquire(KeyIn(tag, "start"), "pool", std::chrono::steady_clock::now() + kLockPatience);
  if (!hold.ok() && !absl::IsAborted(hold.status())) {
    return FailedPrecondition("{}: its filesystem needs locks that work between hosts", Message(hold.status()));
  }
  MOORING_RETURN_IF_ERROR(hold.status());
  if (!config.serves_node()) return UniqueFd();
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const records, catalog.files()->OfTag(tag));
  return AddNode(config, boot_id, pool, *records);
}

absl::StatusOr<bool> IsMissingOrEmpty(const std::string& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) == 0) return status.st_size == 0;
  if (errno == ENOENT || errno == ENOTDIR) return true;
  return ErrnoStatus(errno, "look at", file);
}

absl::StatusOr<OpenedPool> OpenPool(const Config& config, const std::string& boot_id, const PoolConfig& pool,
                                    CatalogStore& catalog, KeyedLocks& locks) {
  MOORING_RETURN_IF_ERROR(CheckSharedFilesystem(pool.path));
  const std::string directory = pool.path + std::string(kSharedRecords), file = directory + "/catalog.db";
  const auto may_begin = [&]() -> absl::Status {
    MOORING_RETURN_IF_ERROR(CheckSharedBeginsEmpty(file, pool));
    return catalog.files()->CheckBegins(file, pool.name);
  };
  MOORING_ASSIGN_OR_RETURN(const bool begins, IsMissingOrEmpty(file));
  if (begins) MOORING_RETURN_IF_ERROR(may_begin());
  MOORING_RETURN_IF_ERROR(MakeSharedRecords(directory));
  OpenedPool opened;
  MOORING_ASSIGN_OR_RETURN(opened.tag, catalog.files()->AddShared(file, pool.name, may_begin));
  MOORING_RETURN_IF_ERROR(
      locks.AddFile(directory + "/lock", [tag = opened.tag](const std::string& key) { return TagOfKey(key) == tag; }));
  MOORING_ASSIGN_OR_RETURN(opened.presence, EnterPool(config, boot_id, pool, opened.tag, catalog, locks));
  return opened;
}

// The same on every host, and known before the pool is mounted: the pool has the same name on all of them.
std::string TagOfOwnMount(const PoolConfig& pool) {
  return fmt::format("{:08x}", static_cast<std::uint32_t>(HashOf("mounted pool " + pool.name)));
}

absl::Status AddOwnMount(const PoolConfig& pool, CatalogStore& catalog, KeyedLocks& locks, SharedPools& shared) {
  const std::string tag = TagOfOwnMount(pool);
  auto availability = std::make_shared<Availability>(pool.name);
  const auto answers = [availability] { return availability->Check(); };
  catalog.files()->AddLater(pool.name, tag, answers);
  shared.tags.emplace(pool.name, tag);
  shared.availability.emplace(pool.name, availability);
  return locks.AddFile(PlaceForCalls(pool.path) + std::string(kSharedRecords) + "/lock",
                       [tag](const std::string& key) { return TagOfKey(key) == tag; },
                       {.answers = answers, .lock_left = [availability] { availability->LeaveWork(); }});
}

}  // namespace

absl::Status MakeSharedRecords(const std::string& directory) {
  MOORING_RETURN_IF_ERROR(MakePrivateDirectory(directory));
  return SyncDirectoryOf(directory);
}

absl::StatusOr<UniqueFd> LockStart(const std::string& records, std::chrono::seconds patience) {
  const std::string path = records + "/start";
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.ok()) return ErrnoStatus(errno, "open", path);
  MOORING_RETURN_IF_ERROR(LockByte(file, 0, path, patience));
  return file;
}

absl::StatusOr<UniqueFd> OpenMountedPool(const Config& config, const std::string& boot_id, const PoolConfig& pool,
                                         CatalogStore& catalog) {
  MOORING_RETURN_IF_ERROR(CheckSharedFilesystem(pool.path));
  const std::string file = pool.path + std::string(kSharedRecords) + "/catalog.db";
  MOORING_ASSIGN_OR_RETURN(CatalogDatabase* const records, catalog.files()->OpenLater(file, pool.name, [&] {
    return CheckSharedBeginsEmpty(file, pool);
  }));
  return config.serves_node() ? AddNode(config, boot_id, pool, *records) : UniqueFd();
}

absl::Status CheckLocksReachOthers(const std::string& mount_info, dev_t device, const std::string& directory) {
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  std::istringstream lines(mount_info);
  for (std::string line; std::getline(lines, line);) {
    const std::string option = IsMountOf(line, number) ? LocalLockOption(line) : "";
    if (option.empty()) continue;
    return FailedPrecondition(
        "{} is mounted with the option {}, so its locks do not reach other hosts: mount it without that, NFS with "
        "vers=4.2, or leave shared=true out",
        Quote(directory), option);
  }
  return absl::OkStatus();
}

// mounter/loop/attachment_lock.h: images on FUSE are not locked.
absl::Status CheckSharedFilesystem(const std::string& directory) {
  struct statfs filesystem = {};
  struct stat status = {};
  if (::statfs(directory.c_str(), &filesystem) != 0 || ::stat(directory.c_str(), &status) != 0) {
    return ErrnoStatus(errno, "look at the filesystem of", directory);
  }
  if (filesystem.f_type == FUSE_SUPER_MAGIC) {
    return FailedPrecondition(
        "{} lies on a FUSE filesystem, where the lock of an image would outlive its user: share a pool on NFSv4, "
        "CephFS or GFS2, or leave shared=true out",
        Quote(directory));
  }
  constexpr char kMountInfo[] = "/proc/self/mountinfo";
  std::ifstream file(kMountInfo);
  if (!file) return ErrnoStatus(errno, "read", kMountInfo);
  const std::string mount_info{std::istreambuf_iterator<char>(file), {}};
  return CheckLocksReachOthers(mount_info, status.st_dev, directory);
}

absl::StatusOr<SharedPools> OpenSharedPools(const Config& config, const std::string& boot_id, CatalogStore& catalog,
                                            KeyedLocks& locks) {
  std::vector<PoolConfig> pools = config.pools;
  std::erase_if(pools, [](const PoolConfig& pool) { return !pool.shared; });
  // Lists go through the pools in this order. Tokens of lists outlive a restart with the flags in another order.
  std::sort(pools.begin(), pools.end(), [](const PoolConfig& a, const PoolConfig& b) { return a.name < b.name; });
  SharedPools shared;
  for (const PoolConfig& pool : pools) {
    if (TypeOf(pool.kind).own_mount != nullptr) {
      MOORING_RETURN_IF_ERROR(AddOwnMount(pool, catalog, locks, shared));
      continue;
    }
    absl::StatusOr<OpenedPool> opened = OpenPool(config, boot_id, pool, catalog, locks);
    if (!opened.ok()) return Annotate(opened.status(), fmt::format("pool {}", pool.name));
    shared.tags.emplace(pool.name, std::move(opened->tag));
    shared.presence.push_back(std::move(opened->presence));
  }
  return shared;
}

}  // namespace mooring

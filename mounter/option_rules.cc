#include "mounter/option_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "mounter/mount_options.h"

namespace mooring {
namespace {

using Value = OptionRule::Value;
using Words = std::span<const std::string_view>;

// The tables leave five kinds out:
//   - options that name another device, file or part of a filesystem: journal_path, logdev, quota files, subvol
//   - options that mount a damaged filesystem as if it were none: norecovery, noload, degraded, rescue
//   - an option with which a power cut destroys the filesystem: nobarrier of btrfs
//   - options that stop the host, or fill its log: errors=panic, fatal_errors, debug, enospc_debug
//   - options that need another kernel module, or a device that no volume has: dax
constexpr OptionRule Flag(std::string_view name, std::string_view opposites = "") {
  return {.name = name, .opposites = opposites};
}

constexpr OptionRule Number(std::string_view name, std::uint64_t least, std::uint64_t most,
                            std::string_view opposites = "") {
  return {.name = name, .value = Value::kNumber, .least = least, .most = most, .opposites = opposites};
}

constexpr OptionRule WordOf(std::string_view name, Words words) {
  return {.name = name, .value = Value::kWord, .words = words};
}

constexpr OptionRule FlagOrWord(std::string_view name, Words words, std::string_view opposites = "") {
  return {.name = name, .value = Value::kWordOrNone, .words = words, .opposites = opposites};
}

constexpr OptionRule Label(std::string_view name, std::string_view opposites = "") {
  return {.name = name, .value = Value::kLabel, .opposites = opposites};
}

// A copy has a UUID of its own, and no filesystem here has quotas.
constexpr std::array kIgnored = {
    Flag("async", "sync"), Flag("nolazytime", "lazytime"),
    Flag("nomand"),        Flag("noiversion"),
    Flag("noquota"),       Flag("nouuid"),
    Flag("silent"),        Flag("loud"),
    Flag("_rnetdev"),
};

constexpr std::array kLabels = {
    Label("context", "defcontext"),
    Label("fscontext"),
    Label("defcontext", "context"),
    Label("rootcontext"),
};

constexpr std::array kCommon = {
    Flag("sync", "async"),        Flag("dirsync"), Flag("lazytime", "nolazytime"), Flag("discard", "nodiscard"),
    Flag("nodiscard", "discard"),
};

constexpr std::string_view kOnOff[] = {"0", "1"};
constexpr std::string_view kData[] = {"ordered", "journal", "writeback"};
constexpr std::string_view kDataErrors[] = {"ignore", "abort"};
constexpr std::string_view kErrors[] = {"remount-ro", "continue"};

// New files get the group of their directory, or of who makes them. Each has two names.
constexpr std::string_view kOfParent = "nogrpid sysvgroups", kOfCreator = "grpid bsdgroups";

constexpr std::array kExt4 = {
    Flag("acl"),
    Flag("user_xattr"),
    Flag("grpid", kOfParent),
    Flag("nogrpid", kOfCreator),
    Flag("bsdgroups", kOfParent),
    Flag("sysvgroups", kOfCreator),
    Flag("bsddf", "minixdf"),
    Flag("minixdf", "bsddf"),
    Flag("auto_da_alloc", "noauto_da_alloc"),
    Flag("noauto_da_alloc", "auto_da_alloc"),
    Flag("delalloc", "nodelalloc"),
    Flag("nodelalloc", "delalloc"),
    Flag("dioread_lock", "dioread_nolock"),
    Flag("dioread_nolock", "dioread_lock"),
    Flag("block_validity", "noblock_validity"),
    Flag("noblock_validity", "block_validity"),
    Flag("journal_checksum", "nojournal_checksum"),
    Flag("nojournal_checksum", "journal_checksum"),
    Flag("nombcache"),
    FlagOrWord("barrier", kOnOff, "nobarrier"),
    Flag("nobarrier", "barrier"),
    Number("commit", 0, 900),
    Number("init_itable", 0, 1000, "noinit_itable"),
    Flag("noinit_itable", "init_itable"),
    OptionRule{.name = "inode_readahead_blks", .value = Value::kPowerOfTwo, .least = 0, .most = 1048576},
    Number("stripe", 0, 1048576),
    Number("max_batch_time", 0, 1000000),
    Number("min_batch_time", 0, 1000000),
    Number("max_dir_size_kb", 0, 1048576),
    Number("journal_ioprio", 0, 7),
    WordOf("data", kData),
    WordOf("data_err", kDataErrors),
    WordOf("errors", kErrors),
};

// In bytes, or in KiB.
constexpr std::string_view kLogBufferSizes[] = {"16k",  "16384", "32k",   "64k",    "128k",
                                                "256k", "32768", "65536", "131072", "262144"};

constexpr std::array kXfs = {
    Flag("grpid", kOfParent),
    Flag("nogrpid", kOfCreator),
    Flag("bsdgroups", kOfParent),
    Flag("sysvgroups", kOfCreator),
    Flag("inode32", "inode64"),
    Flag("inode64", "inode32"),
    Flag("largeio", "nolargeio"),
    Flag("nolargeio", "largeio"),
    Flag("swalloc"),
    Flag("noalign"),
    Flag("filestreams"),
    Flag("wsync"),
    Number("logbufs", 2, 8),
    WordOf("logbsize", kLogBufferSizes),
    OptionRule{.name = "allocsize", .value = Value::kSize, .least = 4096, .most = 1U << 30U},
};

constexpr std::string_view kDiscards[] = {"sync", "async"};
constexpr std::string_view kCompressions[] = {
    "no",     "lzo",    "zlib",    "zlib:1",  "zlib:2",  "zlib:3",  "zlib:4",  "zlib:5",  "zlib:6", "zlib:7",
    "zlib:8", "zlib:9", "zstd",    "zstd:1",  "zstd:2",  "zstd:3",  "zstd:4",  "zstd:5",  "zstd:6", "zstd:7",
    "zstd:8", "zstd:9", "zstd:10", "zstd:11", "zstd:12", "zstd:13", "zstd:14", "zstd:15",
};
constexpr std::string_view kSpaceCaches[] = {"v2"};

// Left out as well: skip_balance, because a volume would stay slow.
constexpr std::array kBtrfs = {
    Flag("acl", "noacl"),
    Flag("noacl", "acl"),
    Flag("autodefrag", "noautodefrag"),
    Flag("noautodefrag", "autodefrag"),
    Flag("barrier"),
    Flag("datacow", "nodatacow"),
    Flag("nodatacow", "datacow datasum compress compress-force"),
    Flag("datasum", "nodatasum nodatacow"),
    Flag("nodatasum", "datasum compress compress-force"),
    Flag("flushoncommit", "noflushoncommit"),
    Flag("noflushoncommit", "flushoncommit"),
    Flag("ssd", "nossd"),
    Flag("nossd", "ssd ssd_spread"),
    Flag("ssd_spread", "nossd_spread nossd"),
    Flag("nossd_spread", "ssd_spread"),
    Flag("treelog", "notreelog"),
    Flag("notreelog", "treelog"),
    Flag("user_subvol_rm_allowed"),
    FlagOrWord("discard", kDiscards, "nodiscard"),
    FlagOrWord("compress", kCompressions, "compress-force nodatacow nodatasum"),
    FlagOrWord("compress-force", kCompressions, "compress nodatacow nodatasum"),
    WordOf("space_cache", kSpaceCaches),
    Number("commit", 1, 300),
    Number("max_inline", 0, 2048),
    Number("metadata_ratio", 0, 1000),
    Number("thread_pool", 1, 64),
};

constexpr std::string_view kNfsVersions[] = {"4.1", "4.2"};
constexpr std::string_view kNfsProtocols[] = {"tcp", "tcp6", "rdma"};
constexpr std::string_view kNfsSecurity[] = {"sys"};
constexpr std::string_view kNfsLookups[] = {"all", "none", "pos", "positive"};

// The options of a pool that Mooring mounts from a server, nfs(5). Left out are options that
//   - lose data or locks: soft, nolock, local_lock
//   - need a program beside the kernel: other versions, sec=krb5, xprtsec=tls
//   - make a second cache of the same files: nosharecache
constexpr std::array kNfs = {
    OptionRule{.name = "addr", .value = Value::kAddress},
    WordOf("vers", kNfsVersions),
    WordOf("proto", kNfsProtocols),
    WordOf("sec", kNfsSecurity),
    WordOf("lookupcache", kNfsLookups),
    Flag("hard", "softerr"),
    Flag("softerr", "hard"),  // of the plugin's own files; pools refuse it
    Flag("ac", "noac"),
    Flag("noac", "ac"),
    Flag("noresvport"),
    Number("port", 1, 65535),
    Number("rsize", 1024, 1048576),
    Number("wsize", 1024, 1048576),
    Number("timeo", 1, 6000),
    Number("retrans", 0, 100),
    Number("nconnect", 1, 16),
    Number("max_connect", 1, 16),
    Number("actimeo", 0, 86400),
    Number("acregmin", 0, 86400),
    Number("acregmax", 0, 86400),
    Number("acdirmin", 0, 86400),
    Number("acdirmax", 0, 86400),
};

// The plugin itself sets the others.
constexpr std::array kMemory = {Flag("noswap"), Flag("inode32", "inode64"), Flag("inode64", "inode32")};

}  // namespace

bool Contradicts(const OptionRule& rule, std::string_view other) {
  return fmt::format(" {} ", rule.opposites).find(fmt::format(" {} ", other)) != std::string::npos;
}

std::span<const OptionRule> OwnOptions(std::string_view fs_type) {
  if (fs_type == "ext4") return kExt4;
  if (fs_type == "xfs") return kXfs;
  if (fs_type == "btrfs") return kBtrfs;
  if (fs_type == "tmpfs") return kMemory;
  if (fs_type == kNfsFsType) return kNfs;
  return {};
}

std::span<const OptionRule> CommonOptions() { return kCommon; }

std::span<const OptionRule> LabelOptions() { return kLabels; }

std::span<const OptionRule> IgnoredOptions() { return kIgnored; }

std::vector<const OptionRule*> RulesOf(std::string_view fs_type) {
  std::vector<const OptionRule*> rules;
  const std::span<const OptionRule> own = OwnOptions(fs_type);
  for (const OptionRule& rule : own) rules.push_back(&rule);
  // The filesystem of a directory or subvolume is the host's or the pool's.
  if (own.empty() || fs_type == kNfsFsType) return rules;
  for (const OptionRule& rule : kLabels) rules.push_back(&rule);
  if (fs_type == "tmpfs") return rules;  // nothing is written
  for (const OptionRule& rule : kCommon) {
    const auto is_own = [&rule](const OptionRule& other) { return other.name == rule.name; };
    if (std::none_of(own.begin(), own.end(), is_own)) rules.push_back(&rule);
  }
  return rules;
}

}  // namespace mooring

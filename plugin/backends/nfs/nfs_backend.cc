#include "plugin/backends/nfs/nfs_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/path.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/mount_options.h"
#include "mounter/mount_words.h"
#include "plugin/backends/directory/directory_backend.h"

namespace mooring {
namespace {

constexpr char kServer[] = "server", kExport[] = "export", kOptions[] = "options";

std::string ValueOf(const PoolConfig& pool, const char* key) {
  const auto found = pool.own_keys.find(key);
  return found == pool.own_keys.end() ? "" : found->second;
}

// A name of DNS, or an address of IPv4 or IPv6.
absl::Status CheckServer(const std::string& server) {
  constexpr std::size_t kLongest = 253;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == ':';
  };
  if (!server.empty() && server.size() <= kLongest && std::all_of(server.begin(), server.end(), is_plain)) {
    return absl::OkStatus();
  }
  return InvalidArgument("server must be the name or the address of the NFS server");
}

absl::Status CheckExport(const std::string& directory) {
  if (directory == "/") return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const std::string normal, NormalisePath(kExport, directory));
  if (normal == directory && directory.find(' ') == std::string::npos) return absl::OkStatus();
  return InvalidArgument("export must be the path of a directory on the server, without blanks or a slash at its end");
}

struct Refusal {
  std::string_view word;  // as it begins
  std::string_view why;
};
constexpr std::string_view kNeedsDaemons =
    "needs a program beside the kernel: mount the export yourself, and put an image pool with shared=true on it";
constexpr std::string_view kOldVersion = "is too old: use vers=4.1 or vers=4.2";
constexpr std::array kRefusals = {
    Refusal{"sec=krb5", kNeedsDaemons},
    Refusal{"xprtsec=", kNeedsDaemons},
    Refusal{"vers=2", kOldVersion},
    Refusal{"vers=3", kOldVersion},
    Refusal{"vers=4.0", kOldVersion},
    Refusal{"soft", "loses data when the server is slow: leave it out; calls of this plugin have time limits anyway"},
    Refusal{"nolock", "keeps locks on one host: leave it out"},
    Refusal{"local_lock", "keeps locks on one host: leave it out"},
    Refusal{"nosharecache", "shows the same file in two states: leave it out"},
    Refusal{"ro", "leaves no room for the records of the pool: publish the volumes read-only"},
    Refusal{"addr", "is found from the server's name: leave it out"},
};

bool Begins(const std::string& word, std::string_view with) {
  return word == with || (with != "ro" && word.starts_with(with));
}

absl::StatusOr<std::vector<FilesystemOption>> ParseOptions(const std::string& text) {
  std::vector<std::string> words;
  if (!text.empty()) words = SplitMountWords(text);
  for (std::string& word : words) {
    if (word.starts_with("nfsvers=")) word.erase(0, std::string_view("nfs").size());
    for (const Refusal& refusal : kRefusals) {
      if (Begins(word, refusal.word)) return InvalidArgument("option {} {}", Quote(word), refusal.why);
    }
  }
  MOORING_ASSIGN_OR_RETURN(MountOptions parsed, ParseMountFlags(kNfsFsType, words));
  const auto has = [&](std::string_view key) {
    return std::any_of(parsed.options.begin(), parsed.options.end(), [key](const auto& o) { return o.key == key; });
  };
  if (!has("vers")) parsed.options.push_back({"vers", "4.2"});
  if (!has("hard")) parsed.options.push_back({"hard", std::nullopt});
  std::sort(parsed.options.begin(), parsed.options.end());
  return parsed.options;
}

absl::Status CompleteNfsPool(PoolConfig& pool) {
  MOORING_RETURN_IF_ERROR(CheckServer(ValueOf(pool, kServer)));
  MOORING_RETURN_IF_ERROR(CheckExport(ValueOf(pool, kExport)));
  pool.shared = true;
  return ParseOptions(ValueOf(pool, kOptions)).status();
}

OwnMount MountOf(const PoolConfig& pool) {
  const std::string server = ValueOf(pool, kServer);
  const bool is_ipv6 = server.find(':') != std::string::npos;
  OwnMount own = {.server = server, .request = {}, .calls = {}};
  own.request.source = fmt::format("{}:{}", is_ipv6 ? "[" + server + "]" : server, ValueOf(pool, kExport));
  own.request.fs_type = kNfsFsType;
  own.request.target = pool.path;
  own.request.options = ParseOptions(ValueOf(pool, kOptions)).value_or(std::vector<FilesystemOption>());
  own.calls = own.request;
  own.calls.target = PlaceForCalls(pool.path);
  std::erase_if(own.calls.options, [](const FilesystemOption& option) {
    return option.key == "hard" || option.key == "timeo" || option.key == "retrans";
  });
  // Not soft: its EIO looks like that of a broken disk.
  const std::vector<FilesystemOption> ends = {{"softerr", std::nullopt}, {"timeo", "20"}, {"retrans", "2"}};
  own.calls.options.insert(own.calls.options.end(), ends.begin(), ends.end());
  return own;
}

}  // namespace

const BackendType& NfsBackendType() {
  static const BackendType kType = {
      .traits = {.name = "nfs",
                 .staging = Staging::kDirectory,
                 .clones = true,
                 .clones_unused = true,
                 .many_nodes = true,
                 .sets_aside = true,
                 .maps_ids = false},
      .pool_keys = {kServer, kExport, "overcommit", kOptions},
      .complete = CompleteNfsPool,
      .tasks_files = true,
      .own_mount = MountOf,
      .make = DirectoryBackendType().make,
      .allow = [](const PoolConfig& pool, PoolAccess& access) { access.volume_directories.push_back(pool.path); }};
  return kType;
}

}  // namespace mooring

#include "manager/volumes/volume_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/size.h"
#include "base/text/terminal_text.h"
#include "manager/csi/csi_volume.h"
#include "manager/records/names.h"
#include "manager/state/keys.h"
#include "manager/volumes/volume_paths.h"

namespace mooring::manager {
namespace {

std::string Text(const std::string& word) { return word.empty() ? "none" : Quote(word); }
std::string Text(std::uint64_t bytes) { return bytes == 0 ? "none" : SizeText(bytes); }

std::string Text(const StringMap& pairs) {
  std::vector<std::string> words;
  for (const auto& [key, value] : pairs) words.push_back(fmt::format("{}={}", key, value));
  return words.empty() ? "none" : Quote(fmt::format("{}", fmt::join(words, ", ")));
}

std::string Text(const std::vector<Topology>& topologies) {
  std::vector<std::string> words;
  for (const Topology& topology : topologies) words.push_back(Text(topology.segments));
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

std::string Text(const std::vector<Capability>& capabilities) {
  std::vector<std::string> words;
  for (const Capability& capability : capabilities) {
    words.push_back(fmt::format("{} {}", ToString(capability.access), ToString(capability.attachment)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

class Differences {
 public:
  template <typename Value>
  void Compare(std::string_view what, const Value& there, const Value& asked) {
    if (there != asked) Add(what, Text(there), Text(asked));
  }
  void Add(std::string_view what, const std::string& there, const std::string& asked) {
    texts_.push_back(fmt::format("{} {}, not {}", what, there, asked));
  }
  void Add(std::string text) { texts_.push_back(std::move(text)); }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

Differences Compare(const Volume& there, const Volume& asked) {
  Differences differences;
  differences.Compare("plugin", there.plugin, asked.plugin);
  if (!asked.name.empty()) differences.Compare("name", there.name, asked.name);
  differences.Compare("size", there.min_bytes, asked.min_bytes);
  differences.Compare("maximum size", there.max_bytes, asked.max_bytes);
  differences.Compare("access", there.capabilities, asked.capabilities);
  differences.Compare("filesystem", there.mount_options.fs_type, asked.mount_options.fs_type);
  if (there.mount_options.flags != asked.mount_options.flags) {
    differences.Add("mount flags", ShownText({"", there.mount_options.flags}),
                    ShownText({"", asked.mount_options.flags}));
  }
  differences.Compare("parameters", there.parameters, asked.parameters);
  differences.Compare("source snapshot", there.snapshot_id, asked.snapshot_id);
  differences.Compare("source volume", there.clone_id, asked.clone_id);
  differences.Compare("required topology", there.required_topologies, asked.required_topologies);
  differences.Compare("preferred topology", there.preferred_topologies, asked.preferred_topologies);
  if (there.secrets != asked.secrets) differences.Add("other secrets");
  if (there.created_here) return differences;
  differences.Compare("external id", there.external_id, asked.external_id);
  differences.Compare("context", there.context, asked.context);
  return differences;
}

// A size as an argument: "64MiB", "4097B".
std::string Argument(std::uint64_t bytes) {
  std::string text = SizeText(bytes);
  if (const std::size_t at = text.find(" bytes"); at != std::string::npos) return text.substr(0, at) + "B";
  std::erase(text, ' ');
  return text;
}

// The size is the only difference that the owner can change without another volume.
std::string Advice(const Volume& there, const Volume& asked, std::size_t differences) {
  const bool is_larger = asked.min_bytes > there.capacity_bytes && there.state == Volume::State::kReady;
  if (is_larger && differences == 1) {
    return fmt::format("to grow it: mooring volume expand {}{} --size {}", ShellQuote(there.key.id),
                       there.key.ns == VolumeKey().ns ? "" : " -n " + ShellQuote(there.key.ns),
                       Argument(asked.min_bytes));
  }
  return "use it as it is, delete it first, or choose another name";
}

// INTERNAL: its record is damaged, so it may be at work.
absl::StatusOr<bool> IsGone(RecordsStore& store, HostDirectory& hosts, const std::string& host) {
  if (const auto status = hosts.Find(host)) return !status->alive;
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> live, store.shared().Get(LiveKey(host)));
  if (live) return false;
  const absl::Status record = store.GetHost(host).status();
  if (!record.ok() && !absl::IsNotFound(record)) return record;
  return !record.ok();
}

}  // namespace

absl::Status CheckReady(const Volume& volume) {
  if (volume.state == Volume::State::kReady) return absl::OkStatus();
  return FailedPrecondition("volume {} is being {}", ToString(volume.key),
                            volume.state == Volume::State::kCreating ? "created" : "deleted");
}

bool AreSameVolume(const Volume& a, const Volume& b) {
  if (a.plugin != b.plugin || a.key == b.key) return false;
  if (!a.name.empty() && a.name == b.name) return true;
  return HasPluginId(a) && HasPluginId(b) && IdForPlugin(a) == IdForPlugin(b);
}

absl::Status CheckNotElsewhere(RecordsStore& store, HostDirectory& hosts, const Volume& volume) {
  if (volume.state == Volume::State::kReady || hosts.IsOurs(volume.worker)) return absl::OkStatus();
  MOORING_ASSIGN_OR_RETURN(const bool is_gone, IsGone(store, hosts, volume.worker));
  if (is_gone) return absl::OkStatus();
  const char* const what = volume.state == Volume::State::kCreating ? "created" : "deleted";
  return Unavailable("volume {} is being {} by host {}: try again, or repeat the request there", ToString(volume.key),
                     what, Quote(volume.worker));
}

absl::Status CheckSameRequest(const Volume& there, const Volume& asked) {
  const std::string name = ToString(there.key);
  if (there.state == Volume::State::kDeleting) {
    return AlreadyExists("volume {} exists already, and is being deleted: repeat the request when it is gone", name);
  }
  if (there.created_here != asked.created_here) {
    return AlreadyExists("volume {} exists already: it was {}. Choose another name, or {} it first", name,
                         there.created_here ? "created, not registered" : "registered, not created",
                         there.created_here ? "delete" : "deregister");
  }
  const Differences differences = Compare(there, asked);
  if (differences.texts().empty()) return absl::OkStatus();
  return AlreadyExists("volume {} exists already, with {}; {}", name, fmt::join(differences.texts(), "; "),
                       Advice(there, asked, differences.texts().size()));
}

}  // namespace mooring::manager

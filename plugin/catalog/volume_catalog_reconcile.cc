// The start: records and images are put together again after whatever ended the process before.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/log.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "plugin/catalog/volume_catalog.h"
#include "plugin/model/repeat.h"

namespace mooring {
namespace {

std::string FirstOf(const std::set<std::string>& ids) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  std::size_t count = 0;
  for (auto id = ids.begin(); id != ids.end() && count < kNamed; ++id, ++count)
    text += (text.empty() ? "" : ", ") + *id;
  return ids.size() > kNamed ? text + ", …" : text;
}

}  // namespace

absl::Status VolumeCatalog::Reconcile() {
  MOORING_RETURN_IF_ERROR(FinishInterrupted());
  return CompareWithPools();
}

absl::Status VolumeCatalog::FinishInterrupted() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> unfinished, store_.ListUnfinished());
  for (const VolumeRecord& record : unfinished) FinishInterrupted(record);
  return absl::OkStatus();
}

// With its name and its id in our hands nobody is at work on it, so it is left over.
void VolumeCatalog::FinishInterrupted(const VolumeRecord& listed) {
  const Call at_once = {std::chrono::steady_clock::now()};
  const auto name = LockName(listed.name, at_once);
  const auto hold = Lock(listed.id, at_once);
  const bool copies = listed.state == VolumeState::kCreating;
  const auto source = LockSource(copies ? listed.source : "", at_once);
  if (!name.ok() || !hold.ok() || !source.ok()) return;
  const absl::StatusOr<std::optional<VolumeRecord>> now = store_.FindById(listed.id);
  if (now.ok() && (!*now || (*now)->state == VolumeState::kReady)) return;
  const Call patient = {std::chrono::steady_clock::now() + kHelperEnds};
  const absl::Status settled = now.ok() ? RepeatWhileAborted(patient, [&] { return Settle(**now); }) : now.status();
  if (!settled.ok()) {
    log::Warning("cannot clean up after an interrupted call: one volume is left as it is",
                 {{"volume", listed.id}, {"name", listed.name}, {"cause", Message(settled)}});
  }
}

absl::Status VolumeCatalog::CompareWithPools() {
  std::set<std::string> strangers;
  for (const Pool& pool : pools_.all()) {
    const absl::StatusOr<std::vector<std::string>> ids = pool.backend->Reconcile();
    if (ids.ok()) {
      strangers.insert(ids->begin(), ids->end());
    } else {  // the volumes of the others are there
      log::Error("a pool cannot be looked into", {{"pool", pool.name}, {"cause", Message(ids.status())}});
    }
  }
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> unfinished, store_.ListUnfinished());
  for (const VolumeRecord& record : unfinished) strangers.erase(record.id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> snapshots, snapshots_.AllIds());
  for (const std::string& id : snapshots) strangers.erase(id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> ephemeral, store_.ListEphemeral());
  for (const VolumeRecord& record : ephemeral) strangers.erase(record.id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedVolume> volumes,
                           store_.ListReady(0, std::numeric_limits<std::int64_t>::max()));
  for (const ListedVolume& listed : volumes) {
    strangers.erase(listed.volume.id);
    CompareSize(listed.volume);
  }
  if (!strangers.empty()) {
    log::Warning("in the pools there is what the catalog does not know: it is left alone, remove or restore it by hand",
                 {{"count", std::to_string(strangers.size())}, {"ids", FirstOf(strangers)}});
  }
  return absl::OkStatus();
}

void VolumeCatalog::CompareSize(const VolumeRecord& record) {
  const absl::StatusOr<const Pool*> pool = PoolOf(record);
  const absl::StatusOr<VolumeLocation> found = pool.ok() ? (*pool)->backend->Locate(record.id) : pool.status();
  if (!found.ok()) {
    log::Error("a volume has lost its image: put it back, or delete the volume",
               {{"volume", record.id}, {"name", record.name}, {"cause", Message(found.status())}});
    return;
  }
  if (!(*pool)->traits().enforces_size) return;
  if (found->bytes < record.bytes) {
    log::Error("the image of a volume has become smaller: restore it before the volume is used",
               {{"volume", record.id},
                {"image", found->path},
                {"has", SizeText(found->bytes)},
                {"should_have", SizeText(record.bytes)}});
  }
  if (found->bytes <= record.bytes) return;
  // An expansion that was interrupted between the image and the record. A disk that is full is no reason not to start.
  if (const absl::Status noted = store_.SetBytes(record.id, found->bytes); !noted.ok()) {
    log::Warning("the size of a volume that has grown is not noted yet",
                 {{"volume", record.id}, {"cause", Message(noted)}});
  }
}

}  // namespace mooring

// The start: records and images are put together again after whatever ended the process before.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/file_lock.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/status.h"
#include "plugin/volume_catalog.h"

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
  MOORING_ASSIGN_OR_RETURN(const FileLock alone, FileLock::Acquire(lock_path_, FileLock::Mode::kExclusive));
  MOORING_RETURN_IF_ERROR(FinishInterrupted());
  return CompareWithImages();
}

// Nobody creates or deletes now, so whatever is unfinished is left over: half created volumes go (nobody was told their
// ids, and the orchestrator asks again by name), half deleted ones go the rest of the way.
absl::Status VolumeCatalog::FinishInterrupted() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> unfinished, store_.ListUnfinished());
  for (const VolumeRecord& record : unfinished) {
    const bool creating = record.state == VolumeState::kCreating;
    const log::Fields fields = {{"volume", record.id}, {"name", record.name}};
    const absl::Status erased = Erase(record);
    if (erased.ok()) {
      log::Info(creating ? "took back a creation that was interrupted" : "finished a deletion that was interrupted",
                fields);
    } else {
      log::Warning("cannot clean up after an interrupted call: one volume is left as it is",
                   {{"volume", record.id}, {"name", record.name}, {"cause", Message(erased)}});
    }
  }
  return absl::OkStatus();
}

absl::Status VolumeCatalog::CompareWithImages() {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string> images, backend_.List());
  std::set<std::string> strangers(images.begin(), images.end());
  MOORING_ASSIGN_OR_RETURN(const std::vector<VolumeRecord> unfinished, store_.ListUnfinished());
  for (const VolumeRecord& record : unfinished) strangers.erase(record.id);
  MOORING_ASSIGN_OR_RETURN(const std::vector<ListedVolume> volumes,
                           store_.ListReady(0, std::numeric_limits<std::int64_t>::max()));
  for (const ListedVolume& listed : volumes) {
    strangers.erase(listed.volume.id);
    MOORING_RETURN_IF_ERROR(CompareSize(listed.volume));
  }
  if (!strangers.empty()) {
    log::Warning("images without a volume in the catalog: they are left alone, remove or restore them by hand",
                 {{"count", std::to_string(strangers.size())}, {"images", FirstOf(strangers)}});
  }
  return absl::OkStatus();
}

absl::Status VolumeCatalog::CompareSize(const VolumeRecord& record) {
  const absl::StatusOr<VolumeLocation> found = backend_.Locate(record.id);
  if (!found.ok()) {
    log::Error("a volume has lost its image: put it back, or delete the volume",
               {{"volume", record.id}, {"name", record.name}, {"cause", Message(found.status())}});
    return absl::OkStatus();
  }
  if (found->bytes < record.bytes) {
    log::Error("the image of a volume has become smaller: restore it before the volume is used",
               {{"volume", record.id},
                {"image", found->path},
                {"has", SizeText(found->bytes)},
                {"should_have", SizeText(record.bytes)}});
  }
  // An expansion that was interrupted between the image and the record.
  return found->bytes > record.bytes ? store_.SetBytes(record.id, found->bytes) : absl::OkStatus();
}

}  // namespace mooring

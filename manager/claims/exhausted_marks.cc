#include "manager/claims/exhausted_marks.h"

#include <fmt/format.h>

#include "base/status.h"
#include "manager/claims/claim_rules.h"
#include "manager/csi/csi_channel.h"

namespace mooring::manager {

// A node of a state that is not shared may have any name.
bool ExhaustedMarks::IsOf(const Volume& volume, const std::string& host) const {
  return !hosts_.is_shared() || volume.exhausted_host == host;
}

bool ExhaustedMarks::IsSet(const Volume& volume, const std::string& host) const {
  return IsOf(volume, host) && IsExhausted(volume, now_(), age_);
}

void ExhaustedMarks::Set(const VolumeKey& volume, const std::string& host, const std::string& words) {
  bool is_new = false;
  const auto mark = [&](Volume& record) {
    is_new = !IsSet(record, host) || WithoutTries(record.exhausted_words) != WithoutTries(words);
    record.exhausted_at = now_();
    record.exhausted_host = host;
    record.exhausted_words = words;
    return true;
  };
  const absl::Status status = records_.store().ChangeVolume(volume, mark).status();
  if (status.ok() && !is_new) return;
  Report(volume, true,
         status.ok() ? fmt::format("exhausted: {}", words)
                     : fmt::format("exhausted ({}), but the mark cannot be stored: {}", words, Message(status)));
}

void ExhaustedMarks::Clear(const std::string& plugin) {
  const auto volumes = records_.store().ListVolumes();
  if (!volumes.ok()) return;  // the marks expire anyway
  const auto clear = [&](Volume& record) {
    if (!IsOf(record, hosts_.self())) return false;
    record.exhausted_at.reset();
    record.exhausted_host.clear();
    record.exhausted_words.clear();
    return true;
  };
  for (const Volume& volume : *volumes) {
    if (volume.plugin != plugin || !volume.exhausted_at || !IsOf(volume, hosts_.self())) continue;
    const absl::Status status = records_.store().ChangeVolume(volume.key, clear).status();
    Report(volume.key, !status.ok(),
           status.ok() ? "no longer exhausted: its plugin's health changed"
                       : fmt::format("still marked as exhausted: {}", Message(status)));
  }
}

void ExhaustedMarks::Report(const VolumeKey& volume, bool bad, const std::string& text) {
  ClaimRecord of_volume;
  of_volume.volume = volume;
  records_.Report(of_volume, bad, text);
}

}  // namespace mooring::manager

// Marks volumes whose plugin answered RESOURCE_EXHAUSTED to a publish. A marked volume is not claimed by others for an
// hour, or until the health of its plugin changes (docs/manager.md, "What holds").
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "manager/claims/claim_records.h"

namespace mooring::manager {

class ExhaustedMarks {
 public:
  // `records` outlives it. `age`: how long a mark holds.
  ExhaustedMarks(ClaimRecords& records, std::chrono::seconds age, std::function<Time()> now)
      : records_(records), age_(age), now_(std::move(now)) {}

  bool IsSet(const Volume& volume) const;

  // Sets or renews the mark. Repeated marks with the same words are reported as one event.
  void Set(const VolumeKey& volume, const std::string& words);

  // Clears the marks of all volumes of `plugin`.
  void Clear(const std::string& plugin);

 private:
  void Report(const VolumeKey& volume, bool bad, const std::string& text);

  ClaimRecords& records_;
  const std::chrono::seconds age_;
  const std::function<Time()> now_;
};

}  // namespace mooring::manager

// Marks volumes whose plugin answered RESOURCE_EXHAUSTED to a publish. A marked volume is not claimed on that host for
// an hour, or until the health of its plugin changes there (docs/manager.md, "What holds"). CSI 1.12 knows such limits
// of a node only, so other hosts may claim it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "manager/claims/claim_records.h"
#include "manager/hosts/host_directory.h"

namespace mooring::manager {

class ExhaustedMarks {
 public:
  // The references outlive it. `age`: how long a mark holds.
  ExhaustedMarks(ClaimRecords& records, HostDirectory& hosts, std::chrono::seconds age, std::function<Time()> now)
      : records_(records), hosts_(hosts), age_(age), now_(std::move(now)) {}

  // Whether a claim of this host must wait.
  bool IsSet(const Volume& volume, const std::string& host) const;

  // Sets or renews the mark, in place of that of another host. Repeated marks with the same words are reported as one
  // event.
  void Set(const VolumeKey& volume, const std::string& host, const std::string& words);

  // Clears the marks of this host on all volumes of `plugin`.
  void Clear(const std::string& plugin);

 private:
  void Report(const VolumeKey& volume, bool bad, const std::string& text);

  bool IsOf(const Volume& volume, const std::string& host) const;

  ClaimRecords& records_;
  HostDirectory& hosts_;
  const std::chrono::seconds age_;
  const std::function<Time()> now_;
};

}  // namespace mooring::manager

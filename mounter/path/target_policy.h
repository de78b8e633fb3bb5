// Whether something may be mounted, or unmounted, at a target. It is asked of the target once that is resolved, and the
// same open parent is used then: by whatever path it was reached, and whatever is swapped in there afterwards.
#ifndef MOORING_MOUNTER_PATH_TARGET_POLICY_H_
#define MOORING_MOUNTER_PATH_TARGET_POLICY_H_

#include "absl/status/status.h"
#include "mounter/path/target.h"

namespace mooring {

class TargetPolicy {
 public:
  virtual ~TargetPolicy() = default;
  virtual absl::Status CheckTarget(const Target& target) const = 0;  // FAILED_PRECONDITION: no

  // Whether an empty target may be removed on which nothing is mounted: its mount may have gone with a reboot.
  virtual bool MayRemove(const Target& /*target*/) const { return true; }
};

class EveryTarget final : public TargetPolicy {
 public:
  absl::Status CheckTarget(const Target&) const override { return absl::OkStatus(); }
};

inline const EveryTarget kEveryTarget{};

}  // namespace mooring

#endif  // MOORING_MOUNTER_PATH_TARGET_POLICY_H_

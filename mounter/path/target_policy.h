// Decides whether a target may be mounted on or unmounted. The check and the mount share one open parent directory, so
// the path that led there, and a later exchange, have no effect.
#pragma once

#include "absl/status/status.h"
#include "mounter/path/target.h"

namespace mooring {

class TargetPolicy {
 public:
  virtual ~TargetPolicy() = default;
  virtual absl::Status CheckTarget(const Target& target) const = 0;  // FAILED_PRECONDITION: refused

  // Whether an empty target without a mount may be removed: a reboot may have ended its mount.
  virtual bool MayRemove(const Target& /*target*/) const { return true; }
};

class EveryTarget final : public TargetPolicy {
 public:
  absl::Status CheckTarget(const Target&) const override { return absl::OkStatus(); }
};

inline const EveryTarget kEveryTarget{};

}  // namespace mooring

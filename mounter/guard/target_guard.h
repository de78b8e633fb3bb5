// The directories in which nothing is mounted, known by what they are and not by their names: in a container, or below
// a bind mount, another path may lead to the same one.
#ifndef MOORING_MOUNTER_GUARD_TARGET_GUARD_H_
#define MOORING_MOUNTER_GUARD_TARGET_GUARD_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "mounter/path/target_policy.h"

namespace mooring {

class TargetGuard final : public TargetPolicy {
 public:
  // No target is one of `trees` or lies below it, nor is it one of `places`. What is not there now is not known later.
  TargetGuard(const std::vector<std::string>& trees, const std::vector<std::string>& places);

  absl::Status CheckTarget(const Target& target) const override;

  // Only what a mount helper once mounted on: mounter/path/target_mark.h.
  bool MayRemove(const Target& target) const override;

 private:
  using Identity = std::pair<dev_t, ino_t>;
  static std::set<Identity> IdentitiesOf(const std::vector<std::string>& paths);

  std::set<Identity> trees_, places_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_GUARD_TARGET_GUARD_H_

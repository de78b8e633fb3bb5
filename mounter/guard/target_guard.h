// Forbids targets by the identity of directories, not by their names. In a container, or through a bind mount, another
// path may lead to the same directory.
#pragma once

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
  // No target is one of `trees` or lies below one, or is one of `places`. A path that does not exist now is not checked
  // later.
  TargetGuard(const std::vector<std::string>& trees, const std::vector<std::string>& places);

  absl::Status CheckTarget(const Target& target) const override;

  // Only a target that a mount helper once mounted on: mounter/path/target_mark.h.
  bool MayRemove(const Target& target) const override;

 private:
  using Identity = std::pair<dev_t, ino_t>;
  static std::set<Identity> IdentitiesOf(const std::vector<std::string>& paths);

  std::set<Identity> trees_, places_;
};

}  // namespace mooring

// Forbids targets by the identity of directories, not by their names. In a container, or through a bind mount, another
// path may lead to the same directory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/file/unique_fd.h"
#include "mounter/path/target_policy.h"

namespace mooring {

class TargetGuard final : public TargetPolicy {
 public:
  // No target is one of `trees` or lies below one, or is one of `places`. A path that does not exist now is not checked
  // later. Most targets lie below one of `roots`: the check of these is quicker.
  TargetGuard(const std::vector<std::string>& trees, const std::vector<std::string>& places,
              const std::vector<std::string>& roots);

  absl::Status CheckTarget(const Target& target) const override;

  // Only a target that a mount helper made or once mounted on: IsMarkedTarget.
  bool MayRemove(const Target& target) const override;

 private:
  using Identity = std::pair<dev_t, ino_t>;
  struct Place {
    Identity identity;
    std::uint64_t mount = 0;
    bool operator==(const Place&) const = default;
  };
  struct Kept {
    Place place;
    UniqueFd fd;
  };
  static std::optional<Place> PlaceOf(int directory, const std::string& path, int flags);
  static std::set<Identity> IdentitiesOf(const std::vector<std::string>& paths);
  void KeepAbove(const std::string& root);
  const Kept* KeptAt(const Place& place) const;

  std::set<Identity> trees_, places_;
  std::vector<Kept> kept_;  // the roots and the directories above them, as far as they are on the mount of "/"
};

}  // namespace mooring

// The block devices that a pool may take: what is behind the links of a directory, as udev makes them. Nothing is
// opened here; sysfs and udev's database say what a device is.
#ifndef MOORING_PLUGIN_BACKENDS_DEVICE_DISKS_H_
#define MOORING_PLUGIN_BACKENDS_DEVICE_DISKS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

struct Disk {
  std::string link;  // its name: "ata-ACME_7_SN1"
  std::string node;  // "/dev/sdb"
  dev_t number = 0;  // of the node
  std::uint64_t bytes = 0;
  std::string serial;  // empty: it has none that can be known
};

class Disks {
 public:
  virtual ~Disks() = default;

  // Of those that are there and match.
  virtual absl::StatusOr<std::vector<std::string>> Links() const = 0;

  // NOT_FOUND: not there. INVALID_ARGUMENT: not one of the pool's, ever.
  virtual absl::StatusOr<Disk> Find(const std::string& link) const = 0;

  // What keeps it from being taken, in words: partitions, a device stacked on it, a mount, swapping. Empty: nothing.
  virtual absl::StatusOr<std::string> UseOf(const Disk& disk) const = 0;

  // Until the link is there, or that time.
  virtual void WaitFor(const std::string& link, std::chrono::steady_clock::time_point until) const = 0;

  virtual std::string PathOf(const std::string& link) const = 0;
};

class SystemDisks final : public Disks {
 public:
  // `directory` may come later; `match` is for fnmatch(3).
  SystemDisks(std::string directory, std::string match) : directory_(std::move(directory)), match_(std::move(match)) {}

  absl::StatusOr<std::vector<std::string>> Links() const override;
  absl::StatusOr<Disk> Find(const std::string& link) const override;
  absl::StatusOr<std::string> UseOf(const Disk& disk) const override;
  void WaitFor(const std::string& link, std::chrono::steady_clock::time_point until) const override;
  std::string PathOf(const std::string& link) const override { return directory_ + "/" + link; }

 private:
  const std::string directory_;
  const std::string match_;
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_DEVICE_DISKS_H_

// The snapshots of a test, single or in a group. The requests are always the same. Each listed snapshot must be ready
// and whole.
#pragma once

#include <string>
#include <vector>

#include "tests/rpc/support/driver.h"

namespace mooring::testing {

class Snapshots {
 public:
  // `images`: the directory of the images, or of the subvolumes. `data`: the content of the file /data of each source.
  Snapshots(Driver& driver, std::string images, std::string data)
      : driver_(driver), images_(std::move(images)), data_(std::move(data)) {}

  // The calls. Create and CreateGroup store the id.
  absl::Status Create(const std::string& volume);
  absl::Status Delete();
  absl::Status CreateGroup(const std::vector<std::string>& volumes);
  absl::Status DeleteGroup();

  void Expect(std::size_t count);  // this many are listed, and are whole
  void ExpectWhole();              // each listed snapshot has its data, and no subvolume is writable
  void TakeDown();                 // deletes all that are listed

  const std::string& id() const { return id_; }

 private:
  std::vector<csi::v1::Snapshot> List();

  Driver& driver_;
  const std::string images_, data_;
  std::string id_, group_;
};

}  // namespace mooring::testing

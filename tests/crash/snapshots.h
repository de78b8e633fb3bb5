// The snapshots of a test, alone or as a group, always asked for with the same requests. And what must hold of each one
// that is listed: it is ready, so it is whole.
#ifndef MOORING_TESTS_CRASH_SNAPSHOTS_H_
#define MOORING_TESTS_CRASH_SNAPSHOTS_H_

#include <string>
#include <vector>

#include "tests/rpc/support/driver.h"

namespace mooring::testing {

class Snapshots {
 public:
  // `images`: the directory they lie in; `data`: what is in the file /data of the ext4 of each source.
  Snapshots(Driver& driver, std::string images, std::string data)
      : driver_(driver), images_(std::move(images)), data_(std::move(data)) {}

  // The calls. Those that make one keep its id.
  absl::Status Create(const std::string& volume);
  absl::Status Delete();
  absl::Status CreateGroup(const std::vector<std::string>& volumes);
  absl::Status DeleteGroup();

  void Expect(std::size_t count);  // so many are listed, and are whole
  void ExpectWhole();              // each one that is listed has its data
  void TakeDown();                 // whatever is listed

  const std::string& id() const { return id_; }

 private:
  std::vector<csi::v1::Snapshot> List();

  Driver& driver_;
  const std::string images_, data_;
  std::string id_, group_;
};

}  // namespace mooring::testing

#endif  // MOORING_TESTS_CRASH_SNAPSHOTS_H_

// A volume, and all calls of an orchestrator on it. Paths and requests are always the same, so a repeated call is the
// same call. The Expect methods check the state of the volume with the kernel and the files.
#pragma once

#include <memory>
#include <string>

#include "tests/crash/snapshots.h"
#include "tests/rpc/support/driver.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {

struct VolumeKind {
  VolumeCapability capability = Mount();
  std::int64_t bytes = 16 * kMiB;  // the least for ext4
  bool read_only = false;          // the publish
  Parameters parameters = {};
};

class Subject {
 public:
  Subject(Driver& driver, const TempDir& dir, VolumeKind kind, std::string name = "subject");

  Subject& Beside();  // a second volume of this kind, at other paths; TakeDown includes it
  Snapshots& snapshots() { return snapshots_; }

  // The calls. Create stores the id.
  absl::Status Create();
  absl::Status CreateFrom(const std::string& source);  // the id of a volume or snapshot with data
  absl::Status Delete();
  absl::Status Attach();
  absl::Status Detach();
  absl::Status Grow();  // to twice its size
  absl::Status Stage();
  absl::Status Unstage();
  absl::Status Publish();
  absl::Status Unpublish();
  absl::Status NodeExpand();  // at the staging path
  absl::Status Modify();
  absl::Status PublishInline();  // as an ephemeral volume
  absl::Status UnpublishInline();

  // The state before the call that is tried. A failure here is a failure of the test.
  void IsNew();        // created
  void IsCreated();    // and attached
  void IsFormatted();  // and has a filesystem with data, as after a use. A block volume has data only.
  void IsDetached();   // formatted, and detached again
  void IsMarked();     // formatted, and the superblock says that the filesystem has errors
  void IsStaged();     // formatted, with data, and staged
  void IsPublished();
  void IsPublishedInline();

  // Checks.
  void ExpectStaged() const;     // with its data, and writable
  void ExpectPublished() const;  // once, with its data, and writable unless it is read-only
  void ExpectNotPublished() const;
  void ExpectNotStaged() const;
  void ExpectAttached(bool attached);
  void ExpectCreated();  // with its size
  void ExpectDeleted();
  void ExpectBytes(std::int64_t bytes);  // of the volume
  void ExpectRoom(std::int64_t bytes);   // of the mounted filesystem, or of the device
  void ExpectModified();                 // and stages it
  void ExpectPublishedInline();

  // Unpublishes, unstages and deletes the volume, from any state. Checks data and filesystem once more.
  void TakeDown();

  const std::string& id() const { return id_; }
  const VolumeKind& kind() const { return kind_; }
  std::string staging() const { return dir_ / ("staging" + place_); }
  std::string target() const { return dir_ / ("tasks" + place_ + "/target"); }
  std::string image() const { return dir_ / ("state/volumes/" + id_ + ".img"); }

 private:
  bool block() const { return kind_.capability.has_block(); }
  bool plain() const { return kind_.parameters.contains("pool"); }  // no image
  bool memory() const { return plain() && kind_.parameters.at("pool") == "memory"; }
  std::string fs_type() const;
  std::string template_image() const;
  void MakeTemplate();
  void WriteData();
  void ExpectData(const std::string& path) const;
  void ExpectWhole() const;
  void ExpectLoopsGone() const;
  bool IsListed();
  void TakeDownVolume();
  void TakeDownInline();

  Driver& driver_;
  const TempDir& dir_;
  const VolumeKind kind_;
  const std::string name_, place_;
  Snapshots snapshots_;
  std::unique_ptr<Subject> beside_;
  std::string id_, source_;
  bool has_data_ = false, inline_ = false;
};

}  // namespace mooring::testing

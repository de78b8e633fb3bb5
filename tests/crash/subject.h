// One volume and all that an orchestrator does with it, always at the same paths and with the same requests: so a call
// that is made again is the same call. And what must hold of it, asked of the kernel and the files.
#ifndef MOORING_TESTS_CRASH_SUBJECT_H_
#define MOORING_TESTS_CRASH_SUBJECT_H_

#include <map>
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
  std::map<std::string, std::string> parameters = {};
};

class Subject {
 public:
  Subject(Driver& driver, const TempDir& dir, VolumeKind kind, std::string name = "subject");

  Subject& Beside();  // another volume of this kind, at paths of its own; it is taken down with this one
  Snapshots& snapshots() { return snapshots_; }

  // The calls. Create keeps the id.
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
  absl::Status PublishInline();  // as an ephemeral volume, of which there is nothing else
  absl::Status UnpublishInline();

  // What has been done before the call that is tried; failures are the test's.
  void IsCreated();
  void IsFormatted();  // created, and holds a filesystem with data, as after a use; or data, where it is a block volume
  void IsMarked();     // and an error was found in its filesystem, so that it is to be checked
  void IsStaged();     // and has data
  void IsPublished();

  // What must hold.
  void ExpectStaged() const;     // with its data, on a filesystem that takes writes
  void ExpectPublished() const;  // once, with its data; and written to where that is allowed, and only there
  void ExpectNotPublished() const;
  void ExpectNotStaged() const;
  void ExpectAttached(bool attached);
  void ExpectDeleted();
  void ExpectBytes(std::int64_t bytes);  // of the volume
  void ExpectRoom(std::int64_t bytes);   // of the mounted filesystem, or of the device
  void ExpectModified();                 // and stages it
  void ExpectPublishedInline();

  // All the way down, from wherever it stands; and on the way its data and its filesystem are looked at once more.
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

#endif  // MOORING_TESTS_CRASH_SUBJECT_H_

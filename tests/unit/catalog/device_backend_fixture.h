// A backend over fake disks and a fake kernel: three devices, of which the third has no serial number.
#pragma once

#include <sys/sysmacros.h>

#include <algorithm>
#include <map>

#include "base/file/directory.h"
#include "base/status.h"
#include "mounter/path/device_links.h"
#include "plugin/backends/device/device_backend.h"
#include "plugin/model/volume_id.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {

struct FakeHost {
  std::map<std::string, Disk> disks = {};        // by link
  std::map<std::string, std::string> uses = {};  // by link

  void Put(const std::string& link, unsigned number, std::uint64_t bytes, const std::string& serial) {
    Disk disk;
    disk.link = link;
    disk.node = "/dev/fake" + std::to_string(number);
    disk.number = makedev(8, number);
    disk.bytes = bytes;
    disk.serial = serial;
    disks[link] = disk;
  }
};

class FakeDisks final : public Disks {
 public:
  explicit FakeDisks(const FakeHost& host, std::string match = "*") : host_(host), match_(std::move(match)) {}
  absl::StatusOr<std::vector<std::string>> Links() const override {
    std::vector<std::string> links;
    for (const auto& [link, disk] : host_.disks) {
      if (MatchesLinks(match_, link)) links.push_back(link);
    }
    return links;
  }
  absl::StatusOr<Disk> Find(const std::string& link) const override {
    if (!MatchesLinks(match_, link)) return InvalidArgument("no link of the pool: " + link);
    const auto found = host_.disks.find(link);
    if (found == host_.disks.end()) return NotFound("no " + link);
    return found->second;
  }
  absl::StatusOr<std::string> UseOf(const Disk& disk) const override {
    const auto found = host_.uses.find(disk.link);
    return found == host_.uses.end() ? std::string() : found->second;
  }
  void WaitFor(const std::string&, std::chrono::steady_clock::time_point) const override {}
  bool HasSerial(dev_t number, const std::string& serial) const override {
    return std::any_of(host_.disks.begin(), host_.disks.end(), [&](const auto& entry) {
      return entry.second.number == number && entry.second.serial == serial;
    });
  }
  std::string PathOf(const std::string& link) const override { return "/links/" + link; }

 private:
  const FakeHost& host_;
  const std::string match_;
};

class DeviceBackendTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kMiB = 1U << 20U;

  DeviceBackendTest() {
    Plug("large", 1, 300 * kMiB, "SN1");
    Plug("small", 2, 100 * kMiB, "SN2");
    Plug("middle", 3, 200 * kMiB, "");
  }
  void Plug(const std::string& link, unsigned number, std::uint64_t bytes, const std::string& serial) {
    host_.Put(link, number, bytes, serial);
    kernel_.With([&](FakeKernel& kernel) { kernel.AddFile("/dev/fake" + std::to_string(number), bytes); });
  }
  void Fill(const std::string& link, FilesystemInfo::Content content = FilesystemInfo::Content::kForeign) {
    kernel_.With([&](FakeKernel& kernel) {
      FakeFilesystem& filesystem = kernel.Node(host_.disks.at(link).node).filesystem;
      filesystem.content = content;
      filesystem.type = content == FilesystemInfo::Content::kFilesystem ? "ext4" : "unknown data";
    });
  }
  std::string LinkOf(const std::string& id) const {
    const auto record = ReadDeviceRecord(Record(id));
    return record.ok() ? record->link : Message(record.status());
  }
  std::vector<std::string> Released() const {
    std::vector<std::string> ids;
    const std::vector<std::string> names = EntriesOf(dir_ / "devices/pool").value();
    for (const std::string& name : names) {
      if (!IdOfFile(name, ".released").empty()) ids.push_back(IdOfFile(name, ".released"));
    }
    return ids;
  }
  std::string IdOf(const std::string& link) const {
    const std::vector<std::string> ids = EntriesOf(dir_ / "devices/pool").value();
    const auto found = std::find_if(ids.begin(), ids.end(), [&](const std::string& id) { return LinkOf(id) == link; });
    return found == ids.end() ? "" : *found;
  }
  std::string Record(const std::string& id) const { return dir_ / "devices/pool/" + id; }
  absl::Status Create(const VolumeDraft& draft) { return backend_.Create(draft); }
  std::string Created(const std::string& device = "", std::uint64_t bytes = 50 * kMiB) {
    std::string id = NewVolumeId();
    EXPECT_OK(Create({.id = id, .bytes = bytes, .device = device}));
    return id;
  }

  static bool IsKnown(const DeviceBackend& backend, const std::string& id) {
    const std::vector<KnownDevice> known = backend.KnownDevices();
    return std::any_of(known.begin(), known.end(), [&](const KnownDevice& device) { return device.volume_id == id; });
  }

  TempDir dir_;
  FakeHost host_;
  FakeMounter kernel_;
  DeviceBackend backend_ = DeviceBackend(dir_ / "devices/pool", std::make_unique<FakeDisks>(host_), kernel_);
};

}  // namespace mooring::testing

#include "tests/crash/manager_subject.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/support/kernel.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

namespace fs = std::filesystem;
using Stub = v1::Manager::Stub;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kPlugin[] = "mooring.csi";
constexpr char kSubject[] = "subject", kBystander[] = "bystander", kThird[] = "third";
constexpr char kAllocation[] = "web-1";
constexpr char kData[] = "written by the task";

constexpr std::chrono::seconds kPatience{20};

}  // namespace

ManagerSubject::ManagerSubject(StepTrap& trap, const TempDir& dir, std::string plugin_socket)
    : trap_(trap),
      dir_(dir),
      plugin_socket_(std::move(plugin_socket)),
      process_({.socket = dir / "manager.sock",
                .state_dir = dir / "manager",
                .runtime_dir = dir / "run",
                .log_file = dir / "manager.log"}) {}

void ManagerSubject::Launch() {
  trap_.Launch([this] {
    process_.Launch();
    return process_.pid();
  });
}

bool ManagerSubject::IsReady() {
  const auto ready = [this] {
    client_ = std::make_unique<ManagerClient>(process_.options().socket);
    const auto info = client_->Ask(&Stub::GetManagerInfo, v1::GetManagerInfoRequest());
    return info.ok() && info->restoring() == 0;
  };
  return WaitUntil([&] { return !process_.running() || ready(); }, kPatience) && process_.running();
}

void ManagerSubject::Kill() {
  client_.reset();
  process_.End(SIGKILL);
}

void ManagerSubject::Prepare() {
  v1::RegisterPluginRequest request;
  request.set_name(kPlugin);
  request.set_endpoint("unix://" + plugin_socket_);
  request.set_wait(true);
  ASSERT_OK(client_->Ask(&Stub::RegisterPlugin, request));
  fs::create_directories(dir_ / "srv");
  ASSERT_OK(Create(kSubject));
  ASSERT_OK(Create(kBystander));
  ASSERT_OK(client_->Attach(kBystander, kAllocation, PathOf(kBystander)));
  bystander_mount_ = MountAt(PathOf(kBystander))->id;
  ASSERT_OK(Attach());
  std::ofstream(PathOf(kSubject) + "/data") << kData;
  ASSERT_OK(Detach());
}

// The volume is a directory. Nothing is formatted, so nearly all steps are made by the manager.
absl::Status ManagerSubject::Create(const std::string& id) {
  v1::Volume volume;
  *volume.mutable_key() = Key(id);
  volume.set_plugin(kPlugin);
  v1::Capability& capability = *volume.add_capabilities();
  capability.set_access(v1::SINGLE_NODE_WRITER);
  capability.set_attachment(v1::FILE_SYSTEM);
  (*volume.mutable_parameters())["pool"] = "directories";
  return client_->Create(volume).status();
}

void ManagerSubject::TakeDown() {
  EXPECT_OK(client_->Detach(kAllocation, kBystander));
  EXPECT_OK(client_->Delete(kSubject));
  EXPECT_OK(client_->Delete(kBystander));
}

absl::Status ManagerSubject::Attach() { return client_->Attach(kSubject, kAllocation, PathOf(kSubject)).status(); }
absl::Status ManagerSubject::Detach() { return client_->Detach(kAllocation, kSubject); }

absl::Status ManagerSubject::CreateThird() { return Create(kThird); }
absl::Status ManagerSubject::DeleteThird() { return client_->Delete(kThird); }

v1::GetVolumeResponse ManagerSubject::See(const std::string& volume) {
  const auto seen = client_->Get(volume);
  EXPECT_OK(seen);
  return seen.value_or(v1::GetVolumeResponse());
}

std::vector<std::string> ManagerSubject::MountsOf(const std::string& volume) const {
  std::vector<std::string> targets;
  for (const MountLine& line : MountsBelow(dir_.path())) {
    if (line.target.find("/" + volume) != std::string::npos) targets.push_back(line.target);
  }
  return targets;
}

void ManagerSubject::ExpectAttached() {
  const v1::GetVolumeResponse seen = See(kSubject);
  ASSERT_THAT(seen.attachments(), SizeIs(1));
  EXPECT_EQ(seen.attachments(0).phase(), v1::Attachment::MOUNTED) << seen.attachments(0).problem();
  ASSERT_THAT(seen.claims(), SizeIs(1));
  EXPECT_EQ(seen.claims(0).state(), v1::Claim::TAKEN) << seen.claims(0).problem();
  EXPECT_TRUE(seen.volume().has_in_use());
  for (const std::string& target : MountsOf(kSubject)) {
    EXPECT_THAT(MountsAt(target), SizeIs(1)) << "stacked: " << target;
  }
  EXPECT_THAT(MountsAt(PathOf(kSubject)), SizeIs(1));
  EXPECT_EQ(ReadFile(PathOf(kSubject) + "/data"), kData);
  EXPECT_EQ(TryWrite(PathOf(kSubject) + "/more", "x"), 0);
}

void ManagerSubject::ExpectDetached() {
  const v1::GetVolumeResponse seen = See(kSubject);
  EXPECT_THAT(seen.attachments(), IsEmpty());
  EXPECT_THAT(seen.claims(), IsEmpty());
  EXPECT_FALSE(seen.volume().has_in_use());
  EXPECT_THAT(MountsOf(kSubject), IsEmpty());
  EXPECT_FALSE(fs::exists(dir_ / "manager/mounts/per-alloc/default/subject/web-1")) << "a directory is left";
}

void ManagerSubject::ExpectThird(bool there) {
  const auto seen = client_->Get(kThird);
  EXPECT_EQ(seen.ok(), there) << seen.status();
  EXPECT_TRUE(there || absl::IsNotFound(seen.status())) << seen.status();
  const fs::directory_iterator directories(dir_ / "directories");
  EXPECT_EQ(std::distance(begin(directories), end(directories)), there ? 3 : 2) << "each volume has one directory";
}

void ManagerSubject::ExpectSettled() {
  v1::GetVolumeResponse seen;
  const auto settled = [&] {
    seen = See(kSubject);
    if (seen.attachments().empty()) return seen.claims().empty();
    return seen.attachments(0).phase() == v1::Attachment::MOUNTED;
  };
  EXPECT_TRUE(WaitUntil(settled, kPatience)) << seen.ShortDebugString();
  if (seen.attachments().empty()) {
    ExpectDetached();
  } else {
    ExpectAttached();
  }
}

void ManagerSubject::ExpectBystander() {
  const std::vector<MountLine> mounts = MountsAt(PathOf(kBystander));
  ASSERT_THAT(mounts, SizeIs(1));
  EXPECT_EQ(mounts[0].id, bystander_mount_) << "it was mounted anew";
  const v1::GetVolumeResponse seen = See(kBystander);
  ASSERT_THAT(seen.attachments(), SizeIs(1));
  EXPECT_EQ(seen.attachments(0).phase(), v1::Attachment::MOUNTED);
  EXPECT_THAT(seen.claims(), SizeIs(1));
}

}  // namespace mooring::testing

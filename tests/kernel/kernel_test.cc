#include "tests/kernel/kernel_test.h"

#include <fmt/ranges.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>

#include <cstdio>
#include <fstream>

#include "tests/support/wait_until.h"

namespace mooring::testing {
namespace {

std::string MakeImage(const std::string& path, const std::string& maker) {
  EXPECT_EQ(Run(fmt::format("{} '{}' >/dev/null 2>&1", maker, path)), 0) << maker;
  return path;
}

// A bind of a shared mount is its peer, and would show each mount below twice. So it leaves that group first.
void MountSelf(const std::string& path, unsigned long propagation) {
  EXPECT_EQ(::mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr), 0) << path;
  EXPECT_EQ(::mount(nullptr, path.c_str(), nullptr, MS_PRIVATE, nullptr), 0) << path;
  EXPECT_EQ(::mount(nullptr, path.c_str(), nullptr, propagation, nullptr), 0) << path;
}

// And first the devices that stand on those: sysfs shows "/loop3" as their file.
void DetachLoopsOver(const std::string& path) {
  for (const LoopLine& loop : LoopsOver(path)) {
    for (const LoopLine& upper : Loops()) {
      if ("/dev" + upper.backing_file == loop.device) DetachLoop(upper);
    }
    DetachLoop(loop);
  }
}

}  // namespace

void KernelTest::TearDown() {
  RestorePath();
  const std::vector<MountLine> mounts = MountsBelow(dir_.path());
  for (auto line = mounts.rbegin(); line != mounts.rend(); ++line)
    ::umount2(line->target.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  DetachLoopsOver(dir_.path());
  EXPECT_TRUE(NoLoopOver(dir_.path()));
}

std::string KernelTest::Dir(const std::string& name) const {
  std::filesystem::create_directories(Path(name));
  return Path(name);
}

std::string KernelTest::File(const std::string& name, const std::string& text) const {
  std::ofstream(Path(name), std::ios::binary) << text;
  return Path(name);
}

std::string KernelTest::Sparse(const std::string& name, std::uint64_t bytes) const {
  File(name);
  std::filesystem::resize_file(Path(name), bytes);
  return Path(name);
}

std::string KernelTest::Ext4Image(const std::string& name, std::uint64_t bytes) const {
  return MakeImage(Sparse(name, bytes), "mkfs.ext4 -q -F -b 4096 -E nodiscard");
}

std::string KernelTest::XfsImage(const std::string& name, std::uint64_t bytes) const {
  return MakeImage(Sparse(name, bytes), "mkfs.xfs -q -K");
}

std::string KernelTest::BtrfsImage(const std::string& name, std::uint64_t bytes) const {
  return MakeImage(Sparse(name, bytes), "mkfs.btrfs -q -K");
}

std::string KernelTest::ImageOf(const std::string& fs_type, const std::string& name) const {
  if (fs_type == "btrfs") return BtrfsImage(name);
  return fs_type == "xfs" ? XfsImage(name) : Ext4Image(name);
}

std::string KernelTest::PrivateMount(const std::string& name) const {
  MountSelf(Dir(name), MS_PRIVATE);
  return Path(name);
}

std::string KernelTest::SharedMount(const std::string& name) const {
  MountSelf(Dir(name), MS_SHARED);
  return Path(name);
}

std::string KernelTest::Losetup(const std::string& arguments) const {
  const std::string command = "losetup --show -f " + arguments;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  char line[64] = {};
  EXPECT_NE(std::fgets(line, sizeof(line), pipe.get()), nullptr) << command;
  const std::string device = line;
  return device.substr(0, device.find('\n'));
}

void KernelTest::PutOnPath(const std::string& program, const std::string& script) const {
  Dir("bin");
  EXPECT_EQ(::chmod(File("bin/" + program, "#!/bin/sh\n" + script + "\n").c_str(), 0755), 0);
  ::setenv("PATH", (Path("bin") + ":" + path_).c_str(), 1);
}

BindRequest BindOf(const std::string& source, const std::string& target, const MountFlags& flags,
                   Propagation propagation) {
  BindRequest request;
  request.source = source;
  request.target = target;
  request.flags = flags;
  request.propagation = propagation;
  return request;
}

BindRequest NodeBindOf(const std::string& device, const std::string& target) {
  BindRequest request = BindOf(device, target);
  request.target_kind = TargetKind::kFile;
  return request;
}

MountRequest MountOf(const std::string& source, const std::string& target, const std::string& fs_type) {
  MountRequest request;
  request.source = source;
  request.label = "mooring-kernel-test";
  request.fs_type = fs_type;
  request.target = target;
  return request;
}

ImageCopy ImageCopyOf(const std::string& source, const std::string& destination, const std::string& renew) {
  return {source, destination, static_cast<std::uint64_t>(StatOf(source).st_size), renew};
}

UnmountRequest UnmountOf(const std::string& target, bool remove_target) {
  UnmountRequest request;
  request.target = target;
  request.remove_target = remove_target;
  return request;
}

MountFlags ReadOnly() {
  MountFlags flags;
  flags.read_only = true;
  return flags;
}

bool FailSystemCalls(const std::vector<std::uint32_t>& numbers, unsigned error) {
  std::vector<sock_filter> filter = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const std::uint32_t number : numbers) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

bool IsClean(const std::string& image, const std::string& fs_type) {
  const std::string program = fs_type == "ext4" ? "e2fsck -fn" : fs_type == "xfs" ? "xfs_repair -n" : "btrfs check";
  return Run(fmt::format("{} '{}' >/dev/null 2>&1", program, image)) == 0;
}

bool HasStatMount() {
  constexpr long kStatMount = 457, kListMount = 458;
  constexpr unsigned kUniqueId = 0x4000;
  struct statx status = {};
  if (::statx(AT_FDCWD, "/", 0, kUniqueId, &status) != 0 || (status.stx_mask & kUniqueId) == 0) return false;
  for (const long number : {kStatMount, kListMount}) {  // EINVAL or EFAULT where it is there
    if (::syscall(number, nullptr, nullptr, 0, 0) == 0 || errno == ENOSYS || errno == EPERM) return false;
  }
  return true;
}

std::string OptionsAt(const std::string& path) {
  const std::vector<MountLine> mounts = MountsAt(path);
  if (mounts.size() != 1) return mounts.empty() ? "nothing" : "a stack";
  return fmt::format("{}", fmt::join(mounts[0].options, ","));
}

std::string PropagationAt(const std::string& path) {
  const std::vector<MountLine> mounts = MountsAt(path);
  if (mounts.size() != 1) return mounts.empty() ? "nothing" : "a stack";
  return fmt::format("{}", fmt::join(mounts[0].propagation, " "));
}

std::string GroupAt(const std::string& path, const std::string& key) {
  const std::vector<MountLine> mounts = MountsAt(path);
  if (mounts.size() != 1) return "not one mount";
  for (const std::string& field : mounts[0].propagation) {
    if (field.starts_with(key)) return field.substr(key.size());
  }
  return "";
}

struct stat StatOf(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) status = {};
  return status;
}

bool Exists(const std::string& path) { return StatOf(path).st_ino != 0; }

std::uint64_t BytesAt(const std::string& path) {
  struct statvfs status = {};
  EXPECT_EQ(::statvfs(path.c_str(), &status), 0);
  return status.f_blocks * status.f_frsize;
}

std::vector<std::string> Entries(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  return names;
}

bool Eventually(const std::function<bool()>& condition) { return WaitUntil(condition, std::chrono::seconds(30)); }

bool NoLoopOver(const std::string& path) {
  return Eventually([&path] { return LoopsOver(path).empty(); });
}

void Overwrite(const std::string& path, std::uint64_t offset, const std::string& bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()))
      << path;
}

}  // namespace mooring::testing

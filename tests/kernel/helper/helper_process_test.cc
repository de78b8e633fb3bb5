// The processes of the mount helper: their privileges, their number and their open files.
#include <algorithm>

#include "base/file/path.h"
#include "mounter/process/privileges.h"
#include "tests/kernel/helper/helper_test.h"

namespace mooring::testing {
namespace {

std::uint64_t Mask(const std::string& hex) { return std::stoull("0" + hex, nullptr, 16); }

TEST_F(HelperTest, ProcessesKeepOnlyTheCapabilitiesTheyNeed) {
  std::uint64_t needed = 0;
  for (const Privilege& privilege : HelperPrivileges()) {
    needed |= std::uint64_t{1} << static_cast<unsigned>(privilege.capability);
    EXPECT_FALSE(privilege.why.empty());
  }
  EXPECT_EQ(needed, 0x892000DBU) << "docs/security.md lists the capabilities, too";
  const std::uint64_t here = Mask(StatusField(::getpid(), "CapPrm"));
  for (const pid_t pid : {spawner_pid(), helper().pid()}) {
    EXPECT_EQ(Mask(StatusField(pid, "CapEff")), needed & here);
    EXPECT_EQ(Mask(StatusField(pid, "CapPrm")), needed & here);
    EXPECT_EQ(Mask(StatusField(pid, "CapBnd")), needed & Mask(StatusField(::getpid(), "CapBnd")));
    EXPECT_EQ(StatusField(pid, "CapInh"), "0000000000000000");
    EXPECT_EQ(StatusField(pid, "CapAmb"), "0000000000000000");
    EXPECT_EQ(StatusField(pid, "NoNewPrivs"), "1");
    EXPECT_EQ(StatusField(pid, "Seccomp"), "2");
  }
}

// A hostile plugin asks for further helpers while one serves.
TEST_F(HelperProcessTest, RepeatedStartsLeaveOneHelper) {
  absl::StatusOr<HelperSpawner> spawner = StartSpawner();
  ASSERT_OK(spawner);
  seen_ = {spawner->pid()};
  std::vector<HelperProcess> helpers;  // their sockets stay open
  const auto start = Clock::now();
  for (int i = 0; i < 12; ++i) {
    absl::StatusOr<HelperProcess> helper = spawner->StartHelper();
    ASSERT_OK(helper);
    seen_.push_back(helper->pid);
    if (i > 0) {
      EXPECT_FALSE(Runs(helpers.back().pid)) << i;
      EXPECT_EQ(helper->predecessor, "killed by signal 9 (Killed)");
    }
    helpers.push_back(*std::move(helper));
  }
  EXPECT_GT(Clock::now() - start, std::chrono::seconds(3)) << "each start waits longer, up to a second";
  EXPECT_TRUE(Runs(helpers.back().pid));
}

std::vector<std::string> OpenFiles(pid_t pid) {
  std::vector<std::string> open;
  const std::filesystem::path directory = "/proc/" + std::to_string(pid) + "/fd";
  for (const std::string& fd : Entries(directory)) {
    const std::string file = std::filesystem::read_symlink(directory / fd);
    open.push_back(file.substr(0, file.find(':')));
  }
  std::sort(open.begin(), open.end());
  return open;
}

TEST_F(HelperProcessTest, NoUnusedDescriptorIsOpen) {
  const UniqueFd left_open(::open(File("secret").c_str(), O_RDONLY));  // and not closed on exec
  absl::StatusOr<HelperSpawner> spawner = StartSpawner();
  ASSERT_OK(spawner);
  const absl::StatusOr<HelperProcess> helper = spawner->StartHelper();
  ASSERT_OK(helper);
  seen_ = {spawner->pid(), helper->pid};
  // The output streams belong to the test. A new helper first closes the spawner's socket. Then it opens the mount root
  // and the directories above it, as far as they are on the mount of "/".
  std::vector<std::string> above = {Path("csi")};
  while (above.back() != "/") above.emplace_back(ParentOf(above.back()));
  const auto has_only = [](pid_t pid, const std::vector<std::string>& kept) {
    std::vector<std::string> open = OpenFiles(pid);
    std::erase_if(open,
                  [&](const std::string& file) { return std::find(kept.begin(), kept.end(), file) != kept.end(); });
    return open.size() == 4 && open.front() == "/dev/null" && open.back() == "socket";
  };
  EXPECT_TRUE(Eventually([&] { return has_only(spawner->pid(), {}); }))
      << ::testing::PrintToString(OpenFiles(spawner->pid()));
  EXPECT_TRUE(Eventually([&] { return has_only(helper->pid, above); }))
      << ::testing::PrintToString(OpenFiles(helper->pid));
}

}  // namespace
}  // namespace mooring::testing

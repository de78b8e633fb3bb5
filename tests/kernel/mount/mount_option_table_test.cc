// docs/mount-options.tsv, each row on a real filesystem: what mount(8) does with the option, what Mooring does, and
// what the kernel then shows of both mounts.
#include "tests/support/mount_option_table.h"

#include <libmount/libmount.h>

#include <algorithm>
#include <set>

#include "base/status.h"
#include "mounter/mount_options.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

// A mount that was made and is gone again.
struct Made {
  bool taken = false;
  std::string refusal = {};
  std::set<std::string> options = {}, super_options = {};
};

class MountOptionTableTest : public KernelTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Dir("target");
    if (!IsMemory()) MakePristine();
    Renew();
    plain_ = ByMount("defaults");
    ASSERT_TRUE(plain_.taken);
  }

  static const std::string& Type() { return GetParam(); }
  static bool IsMemory() { return Type() == "tmpfs"; }

  // With a directory for X-mount.subdir.
  void MakePristine() const {
    const std::string device = Losetup(ImageOf(Type(), "pristine"));
    ASSERT_EQ(::mount(device.c_str(), Path("target").c_str(), Type().c_str(), 0, nullptr), 0);
    Dir("target/sub");
    ASSERT_EQ(::umount2(Path("target").c_str(), 0), 0);
    ASSERT_EQ(Tool("losetup -d " + device), 0);
  }

  // An option may change the filesystem for good.
  void Renew() {
    if (IsMemory()) return;
    if (!device_.empty()) {
      ASSERT_EQ(Tool("losetup -d " + device_), 0);
    }
    ASSERT_EQ(Tool(fmt::format("cp --sparse=always '{}' '{}'", Path("pristine"), Path("image"))), 0);
    device_ = Losetup(Path("image"));
  }

  Made Look() const {
    const std::optional<MountLine> mount = MountAt(Path("target"));
    if (!mount) return {.refusal = "nothing is mounted"};
    Made made = {.taken = true};
    made.options = {mount->options.begin(), mount->options.end()};
    made.super_options = {mount->super_options.begin(), mount->super_options.end()};
    EXPECT_EQ(::umount2(Path("target").c_str(), 0), 0);
    return made;
  }

  // The options that Mooring gives a tmpfs by itself.
  static constexpr char kOfMemory[] = "size=4194304,nr_inodes=1024,mode=0755,huge=never,";

  Made ByMount(const std::string& option) {
    const std::string command = fmt::format("mount -n -t {} -o '{}{}' {} '{}' >/dev/null 2>&1", Type(),
                                            IsMemory() ? kOfMemory : "", option, Source(), Path("target"));
    if (Tool(command) != 0) return {.refusal = "mount(8) refuses it"};
    return Look();
  }

  Made ByMooring(const std::string& option) {
    const absl::StatusOr<MountOptions> parsed = ParseMountFlags(Type(), {option});
    if (!parsed.ok()) return {.refusal = parsed.status().ToString()};
    MountRequest request = MountOf(Source(), Path("target"), Type());
    request.flags = parsed->flags;
    request.options = parsed->options;
    if (IsMemory()) {
      const std::vector<FilesystemOption> own = {
          {"size", "4194304"}, {"nr_inodes", "1024"}, {"mode", "0755"}, {"huge", "never"}};
      request.options.insert(request.options.end(), own.begin(), own.end());
    }
    const absl::Status status = mounter_.Mount(request);
    return status.ok() ? Look() : Made{.refusal = status.ToString()};
  }

  Made ByCommandLine(const std::string& option) {
    const std::string command = fmt::format("{} mount device {} '{}' --option '{}' >/dev/null", MOORING_BINARY,
                                            Source(), Path("target"), option);
    return Tool(command) == 0 ? Look() : Made{.refusal = "mooring mount refuses it"};
  }

  std::string Source() const { return IsMemory() ? "mooring:table" : device_; }

  void Check(const MountOptionRow& row) {
    SCOPED_TRACE(row.option);
    const bool by_hand = row.by_mooring == "command line";
    const Made mooring = by_hand ? ByCommandLine(row.option) : ByMooring(row.option);
    const Made judge = ByMount(row.option);
    if (row.by_mount != "depends") {
      EXPECT_EQ(judge.taken, row.by_mount == "takes") << "by mount(8): " << judge.refusal;
    }
    if (row.by_mooring == "refuses") {
      EXPECT_FALSE(mooring.taken);
      EXPECT_THAT(mooring.refusal, ::testing::AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("'" + row.Key() + "'")));
    } else if (row.by_mooring == "passes") {
      ExpectPassed(row, mooring, judge);
    } else {
      EXPECT_TRUE(mooring.taken) << mooring.refusal;
    }
    if (row.by_mooring == "attribute") ExpectAttribute(row, mooring, judge);
    if (row.by_mooring == "ignores") ExpectIgnored(row, mooring, judge);
  }

  void ExpectAttribute(const MountOptionRow& row, const Made& mooring, const Made& judge) const {
    EXPECT_EQ(mooring.options, judge.options);
    if (row.shown != "-") {
      EXPECT_TRUE(mooring.options.contains(row.shown)) << ::testing::PrintToString(mooring.options);
    }
    EXPECT_FALSE(mooring.super_options.contains("ro")) << "other mounts of the volume would be read-only, too";
  }

  void ExpectPassed(const MountOptionRow& row, const Made& mooring, const Made& judge) const {
    EXPECT_EQ(mooring.taken, judge.taken) << mooring.refusal;
    std::set<std::string> options = mooring.super_options;
    if (row.Key() != "errors") options.erase("errors=remount-ro");  // which Mooring adds to an ext4
    EXPECT_EQ(options, judge.super_options);
    EXPECT_EQ(mooring.options, judge.options);
    if (row.shown != "-" && judge.taken) {
      EXPECT_TRUE(options.contains(row.shown)) << ::testing::PrintToString(options);
    }
  }

  // mount(8) does what it does without the option, or the row says why Mooring does not.
  void ExpectIgnored(const MountOptionRow& row, const Made& mooring, const Made& judge) const {
    EXPECT_EQ(mooring.options, plain_.options);
    if (row.remark != "-") return;
    EXPECT_TRUE(judge.taken) << judge.refusal;
    EXPECT_EQ(judge.options, plain_.options);
    EXPECT_EQ(judge.super_options, plain_.super_options);
  }

 private:
  std::string device_;
  Made plain_;
};

TEST_P(MountOptionTableTest, EachRowOfAllFilesystemsIsTrue) {
  for (const MountOptionRow& row : MountOptionTable()) {
    if (row.filesystems == "all") Check(row);
  }
}

TEST_P(MountOptionTableTest, EachOtherRowIsTrue) {
  for (const MountOptionRow& row : MountOptionTable()) {
    if (row.filesystems == "all" || !row.IsFor(Type())) continue;
    Renew();
    Check(row);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MountOptionTableTest, ::testing::Values("ext4", "xfs", "btrfs", "tmpfs"),
                         [](const auto& test) { return test.param; });

// libmount's own lists have each word of mount(8) for all filesystems. A name ends in "=" or "[=]" if it has a value.
TEST(LibmountWordsTest, EachHasARow) {
  std::set<std::string> keys;
  for (const MountOptionRow& row : MountOptionTable()) keys.insert(row.Key());
  for (const int list : {MNT_LINUX_MAP, MNT_USERSPACE_MAP}) {
    for (const libmnt_optmap* word = mnt_get_builtin_optmap(list); word->name != nullptr; ++word) {
      std::string name = word->name;
      if (name == "x-" || name == "X-") continue;  // anything that begins so
      name = name.substr(0, name.find_first_of("[="));
      EXPECT_TRUE(keys.contains(name)) << name;
    }
  }
}

}  // namespace
}  // namespace mooring::testing

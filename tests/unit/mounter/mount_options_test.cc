#include "mounter/mount_options.h"

#include <gtest/gtest.h>

#include <array>

#include "mounter/option_rules.h"
#include "tests/support/status_matchers.h"

namespace mooring::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Flags(const std::vector<std::string>& flags) {
  const absl::StatusOr<MountOptions> parsed = ParseMountFlags("ext4", flags);
  return parsed.ok() ? ToString(parsed->flags) : parsed.status().ToString();
}

std::string Options(std::string_view fs_type, const std::vector<std::string>& flags) {
  const absl::StatusOr<MountOptions> parsed = ParseMountFlags(fs_type, flags);
  return parsed.ok() ? ToString(parsed->options) : parsed.status().ToString();
}

TEST(MountOptionsTest, WithoutFlagsAMountHasTheDefaults) {
  EXPECT_EQ(Flags({}), "rw,relatime");
  EXPECT_EQ(Flags({"defaults"}), "rw,relatime");
  EXPECT_EQ(Flags({"ro,nosuid,nodev,noexec,nodiratime,noatime"}), "ro,nosuid,nodev,noexec,nodiratime,noatime");
}

TEST(MountOptionsTest, TheLastOfTwoContradictingFlagsWins) {
  EXPECT_EQ(Flags({"ro", "rw"}), "rw,relatime");
  EXPECT_EQ(Flags({"rw,ro"}), "ro,relatime");
  EXPECT_EQ(Flags({"rw", "ro,noexec", "exec"}), "ro,relatime");
}

struct Allowed {
  const char* fs_type;
  std::vector<std::string> options;
};

TEST(MountOptionsTest, EachOptionOfAFilesystemIsTakenForItAndAllowedWhereItIsMounted) {
  const std::vector<std::string> common = {"sync", "dirsync", "lazytime", "discard", "nodiscard"};
  const std::vector<Allowed> all = {
      {"ext4",
       {"acl", "user_xattr", "auto_da_alloc", "noauto_da_alloc", "delalloc", "nodelalloc", "dioread_lock",
        "dioread_nolock", "block_validity", "noblock_validity", "noinit_itable"}},
      {"ext4",
       {"grpid", "nogrpid", "bsdgroups", "sysvgroups", "bsddf", "minixdf", "journal_checksum", "nojournal_checksum",
        "nombcache", "barrier", "nobarrier", "max_dir_size_kb=64", "data_err=abort"}},
      {"ext4",
       {"barrier=1", "commit=900", "init_itable=1000", "inode_readahead_blks=1048576", "stripe=1048576",
        "max_batch_time=1000000", "min_batch_time=1000000", "journal_ioprio=7", "data=ordered", "data=journal",
        "data=writeback", "errors=remount-ro", "errors=continue"}},
      {"xfs", {"inode32",         "inode64",      "largeio",      "nolargeio",    "swalloc",       "noalign",
               "filestreams",     "logbufs=8",    "logbsize=32k", "logbsize=64k", "logbsize=128k", "logbsize=256k",
               "logbsize=262144", "logbsize=16k", "allocsize=4k", "allocsize=1m", "allocsize=1g",  "allocsize=65536",
               "wsync",           "grpid",        "nogrpid",      "bsdgroups",    "sysvgroups"}},
      {"btrfs", {"acl", "noacl", "autodefrag", "noautodefrag", "flushoncommit", "noflushoncommit", "ssd", "nossd"}},
      {"btrfs",
       {"barrier", "datacow", "nodatacow", "datasum", "nodatasum", "ssd_spread", "nossd_spread", "treelog", "notreelog",
        "user_subvol_rm_allowed", "metadata_ratio=10", "compress=zstd:7", "compress=zlib:9"}},
      {"btrfs",
       {"discard=sync", "discard=async", "compress", "compress=no", "compress=zlib", "compress=lzo", "compress=zstd",
        "compress=zstd:15", "compress-force", "compress-force=zstd:3", "space_cache=v2", "commit=300",
        "max_inline=2048", "thread_pool=64"}},
  };
  for (const Allowed& row : all) {
    std::vector<std::string> options = row.options;
    options.insert(options.end(), common.begin(), common.end());
    for (const std::string& option : options) {
      const absl::StatusOr<MountOptions> parsed = ParseMountFlags(row.fs_type, {option});
      ASSERT_OK(parsed) << row.fs_type << " " << option;
      EXPECT_EQ(ToString(parsed->options), option);
      EXPECT_TRUE(IsAllowed(row.fs_type, parsed->options.at(0))) << option;
    }
  }
}

TEST(MountOptionsTest, AnotherFilesystemsOptionIsRefused) {
  EXPECT_THAT(ParseMountFlags("ext4", {"inode64"}), FailsWith(StatusCode::kInvalidArgument, "not allowed for ext4"));
  EXPECT_THAT(ParseMountFlags("xfs", {"commit=5"}), FailsWith(StatusCode::kInvalidArgument, "not allowed for xfs"));
  EXPECT_FALSE(IsAllowed("ext4", {"inode64", std::nullopt}));
  EXPECT_FALSE(IsAllowed("xfs", {"commit", "5"}));
}

TEST(MountOptionsTest, WhateverNamesOrWeakensSomethingElseIsRefused) {
  constexpr const char* kFlags[] = {
      // other kinds of mounts
      "bind", "rbind", "move", "remount", "remount,ro", "private", "shared", "rshared", "slave", "unbindable",
      // other files, devices and labels
      "loop", "loop=/dev/loop0", "offset=512", "sizelimit=1", "context=x", "context", "context=a:b", "context=a:b:c d",
      "context=a:b:c,d", "fscontext=x", "defcontext=x", "rootcontext=@target", "verity.roothash=x",
      "journal_path=/dev/sda", "journal_dev=0x801", "logdev=/dev/sda", "rtdev=/dev/sda", "usrjquota=x", "grpjquota=x",
      "jqfmt=vfsv0", "usrquota", "prjquota", "sb=32768", "subvol=x", "source=/dev/sda", "helper=sh",
      // weaker checks, other owners
      "norecovery", "noload", "abort", "debug", "errors=panic", "iversion", "mand", "dax=always", "resuid=0",
      "resgid=0", "uid=0", "gid=0", "umask=0",
      // malformed
      "RO", " ro", "ro ", "ro=1", "ro\n", "rw;sh", "=", "", ",ro", "ro,,rw", "commit=5\n"};
  for (const char* flag : kFlags) {
    const absl::StatusOr<MountOptions> parsed = ParseMountFlags("ext4", {flag});
    EXPECT_THAT(parsed, FailsWith(StatusCode::kInvalidArgument, "mount flag")) << flag;
    EXPECT_THAT(Message(parsed.status()), Not(HasSubstr("\n"))) << flag;
  }
  EXPECT_THAT(ParseMountFlags("ext4", {std::string("ro\0rw", 5)}),
              FailsWith(StatusCode::kInvalidArgument, "ro\\x00rw"));
}

TEST(MountOptionsTest, WordsWithoutEffectOnAVolumeAreLeftOut) {
  for (const char* flag : {"async",
                           "nolazytime",
                           "norelatime",
                           "nostrictatime",
                           "nomand",
                           "noiversion",
                           "noquota",
                           "nouuid",
                           "silent",
                           "loud",
                           "_netdev",
                           "_rnetdev",
                           "nofail",
                           "auto",
                           "noauto",
                           "user",
                           "user=joe",
                           "users",
                           "nouser",
                           "nousers",
                           "owner",
                           "noowner",
                           "group",
                           "nogroup",
                           "comment=mine",
                           "x-systemd.automount",
                           "x-gvfs-hide",
                           "X-mount.mkdir",
                           "nouuid,_netdev,nofail,async,noquota,comment=\"a,b\""}) {
    for (const char* fs_type : {"ext4", "xfs", "btrfs", "directory", "tmpfs"}) {
      const absl::StatusOr<MountOptions> parsed = ParseMountFlags(fs_type, {flag, "ro"});
      ASSERT_OK(parsed) << fs_type << " " << flag;
      EXPECT_EQ(ToString(parsed->options), "defaults") << flag;
      EXPECT_TRUE(parsed->flags.read_only);
    }
    EXPECT_FALSE(IsAllowed("ext4", {flag, std::nullopt})) << flag;
  }
  EXPECT_THAT(ParseMountFlags("ext4", {"async=1"}), FailsWith(StatusCode::kInvalidArgument, "'async' takes no value"));
}

// No user mounts a volume, so its flags are the same with and without these words.
TEST(MountOptionsTest, WordsThatLetUsersMountChangeNoFlag) {
  for (const char* word : {"user", "users", "owner", "group"}) {
    EXPECT_EQ(Flags({word}), Flags({}));
    EXPECT_EQ(ToString(ParseForeignOptions({"ro", word})->flags), ToString(ParseForeignOptions({"ro"})->flags));
  }
}

TEST(MountOptionsTest, LabelsOfSelinuxAreTakenInQuotesAsKubeletWritesThem) {
  const std::string label = "system_u:object_r:container_file_t:s0:c10,c20";
  for (const char* fs_type : {"ext4", "xfs", "btrfs", "tmpfs"}) {
    EXPECT_EQ(Options(fs_type, {"context=\"" + label + "\""}), "context=" + label);
    EXPECT_EQ(Options(fs_type, {"ro,context=\"" + label + "\",noatime"}), "context=" + label);
    EXPECT_EQ(Options(fs_type, {"rootcontext=a:b:c,fscontext=a:b:c:s0"}), "fscontext=a:b:c:s0,rootcontext=a:b:c");
  }
  EXPECT_THAT(ParseMountFlags("ext4", {"context=\"" + label}),
              FailsWith(StatusCode::kInvalidArgument, "'context' takes"));
  EXPECT_THAT(ParseMountFlags("ext4", {"context=a:b:c", "context=a:b:d"}),
              FailsWith(StatusCode::kInvalidArgument, "given twice"));
  EXPECT_THAT(ParseMountFlags("directory", {"context=a:b:c"}),
              FailsWith(StatusCode::kInvalidArgument, "'context' is not allowed for directory"));
}

TEST(MountOptionsTest, OneRefusedFlagRefusesTheWholeList) {
  EXPECT_THAT(ParseMountFlags("ext4", {"ro", "noexec,bind,nosuid"}), FailsWith(StatusCode::kInvalidArgument, "'bind'"));
}

TEST(MountOptionsTest, ARefusalSaysWhatIsAllowed) {
  const std::string message = Message(ParseMountFlags("xfs", {"nope"}).status());
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("noatime"), HasSubstr("discard"), HasSubstr("logbsize")));
}

TEST(MountOptionsTest, TheValueOfARefusedFlagIsNotRepeated) {
  for (const char* flag : {"password=hunter2", "commit=hunter2", "data=hunter2", "acl=hunter2", "ro=hunter2"}) {
    const absl::StatusOr<MountOptions> parsed = ParseMountFlags("ext4", {flag});
    ASSERT_FALSE(parsed.ok()) << flag;
    EXPECT_THAT(Message(parsed.status()), Not(HasSubstr("hunter2"))) << flag;
  }
  EXPECT_THAT(Message(ParseMountFlags("ext4", {"commit=1", "commit=222"}).status()), Not(HasSubstr("222")));
}

TEST(MountOptionsTest, ValuesOutOfRangeAreRefusedWithTheRange) {
  for (const char* flag : {"commit=901", "commit=-1", "commit=", "commit", "commit=5s", "commit=+5", "commit= 5",
                           "commit=0x5", "commit=18446744073709551621", "commit=5=6"}) {
    EXPECT_THAT(ParseMountFlags("ext4", {flag}), FailsWith(StatusCode::kInvalidArgument, "from 0 to 900")) << flag;
  }
  EXPECT_THAT(ParseMountFlags("ext4", {"data="}), FailsWith(StatusCode::kInvalidArgument, "ordered, journal"));
  EXPECT_THAT(ParseMountFlags("ext4", {"errors=panic"}),
              FailsWith(StatusCode::kInvalidArgument, "remount-ro, continue"));
  EXPECT_THAT(ParseMountFlags("ext4", {"discard=1"}), FailsWith(StatusCode::kInvalidArgument, "no value"));
  EXPECT_THAT(ParseMountFlags("xfs", {"logbufs=9"}), FailsWith(StatusCode::kInvalidArgument, "from 2 to 8"));
  EXPECT_THAT(ParseMountFlags("xfs", {"logbufs=1"}), FailsWith(StatusCode::kInvalidArgument, "from 2 to 8"));
  for (const char* size : {"2k", "2g", "3m", "k", "", "4K", "64kb", "1048577k", "18014398509481984k"}) {
    EXPECT_THAT(ParseMountFlags("xfs", {std::string("allocsize=") + size}),
                FailsWith(StatusCode::kInvalidArgument, "a power of two from 4096 to 1073741824, also with the unit"));
  }
  for (const char* blocks : {"3", "48", "2097152", "-1", ""}) {
    EXPECT_THAT(ParseMountFlags("ext4", {std::string("inode_readahead_blks=") + blocks}),
                FailsWith(StatusCode::kInvalidArgument, "power of two up to 1048576"));
  }
  EXPECT_FALSE(IsAllowed("ext4", {"commit", "901"}));
  EXPECT_FALSE(IsAllowed("ext4", {"commit", std::nullopt}));
  EXPECT_FALSE(IsAllowed("ext4", {"discard", ""}));
  EXPECT_FALSE(IsAllowed("ext4", {"data", ""}));
}

TEST(MountOptionsTest, RepeatedOptionIsRefusedUnlessItIsTheSame) {
  EXPECT_EQ(Options("ext4", {"discard", "discard", "commit=30,commit=30"}), "commit=30,discard");
  EXPECT_THAT(ParseMountFlags("ext4", {"commit=30", "commit=31"}),
              FailsWith(StatusCode::kInvalidArgument, "'commit' is given twice"));
}

TEST(MountOptionsTest, OptionsThatContradictEachOtherAreRefusedInEitherOrder) {
  for (const auto& [fs_type, one, other] : std::vector<std::array<std::string, 3>>{
           {"ext4", "discard", "nodiscard"},
           {"xfs", "discard", "nodiscard"},
           {"ext4", "delalloc", "nodelalloc"},
           {"ext4", "barrier=1", "nobarrier"},
           {"ext4", "grpid", "sysvgroups"},
           {"xfs", "bsdgroups", "nogrpid"},
           {"btrfs", "nodatacow", "datacow"},
           {"btrfs", "nodatacow", "datasum"},
           {"btrfs", "nodatacow", "compress=zstd"},
           {"btrfs", "nodatasum", "compress-force"},
           {"btrfs", "nossd", "ssd_spread"},
           {"ext4", "auto_da_alloc", "noauto_da_alloc"},
           {"ext4", "dioread_lock", "dioread_nolock"},
           {"ext4", "block_validity", "noblock_validity"},
           {"ext4", "init_itable=10", "noinit_itable"},
           {"xfs", "inode32", "inode64"},
           {"xfs", "largeio", "nolargeio"},
           {"btrfs", "discard=async", "nodiscard"},
           {"btrfs", "compress=zstd", "compress-force"},
           {"btrfs", "ssd", "nossd"},
           {"ext4", "sync", "async"},
           {"xfs", "lazytime", "nolazytime"},
           {"ext4", "context=a:b:c", "defcontext=a:b:c"},
       }) {
    EXPECT_THAT(ParseMountFlags(fs_type, {one, other}), FailsWith(StatusCode::kInvalidArgument, "contradict")) << one;
    EXPECT_THAT(ParseMountFlags(fs_type, {other + "," + one}), FailsWith(StatusCode::kInvalidArgument, "contradict"))
        << one;
  }
}

TEST(MountOptionsTest, ContradictionsAreMutual) {
  for (const char* fs_type : {"ext4", "xfs", "btrfs", "tmpfs", "nfs4"}) {
    const std::vector<const OptionRule*> rules = RulesOf(fs_type);
    for (const OptionRule* one : rules) {
      for (const OptionRule* other : rules) {
        EXPECT_EQ(Contradicts(*one, other->name), Contradicts(*other, one->name)) << one->name << " " << other->name;
      }
    }
  }
}

TEST(MountOptionsTest, OptionsAreComparedWithoutRegardToTheirOrder) {
  EXPECT_EQ(*ParseMountFlags("ext4", {"discard,commit=30", "ro"}),
            *ParseMountFlags("ext4", {"ro", "commit=30", "discard"}));
  EXPECT_EQ(Options("ext4", {}), "defaults");
}

TEST(MountOptionsTest, AnotherFilesystemHasFlagsOfTheMountOnly) {
  EXPECT_TRUE(ParseMountFlags("f2fs", {"ro,_netdev,async"})->flags.read_only);
  for (const char* option : {"commit=5", "discard", "sync", "context=a:b:c"}) {
    EXPECT_THAT(ParseMountFlags("f2fs", {option}), FailsWith(StatusCode::kInvalidArgument, "not allowed for f2fs"));
    EXPECT_FALSE(IsAllowed("f2fs", {option, std::nullopt})) << option;
  }
}

TEST(MountOptionsTest, APersonMayGiveAnotherFilesystemAnyOption) {
  const auto parsed =
      ParseForeignOptions({"ro,uid=5", "_netdev,x-systemd.automount", "codepage=437,noexec,utf8,uid=6"});
  ASSERT_OK(parsed);
  EXPECT_EQ(ToString(parsed->flags), "ro,noexec,relatime");
  EXPECT_EQ(ToString(parsed->options), "uid=5,codepage=437,utf8,uid=6");
  EXPECT_TRUE(HasOptionTable("tmpfs"));
  EXPECT_FALSE(HasOptionTable("vfat"));
}

TEST(MountOptionsTest, ButNoWordThatIsAnotherOrderToMount) {
  for (const char* word : {"bind", "rbind", "remount", "private", "rshared", "unbindable", "loop", "loop=/x",
                           "offset=512", "helper=x", "uhelper=x", "verity.hashdevice=/x", "X-mount.owner=1"}) {
    EXPECT_THAT(ParseForeignOptions({std::string("ro,") + word}),
                FailsWith(StatusCode::kInvalidArgument, "is no option of a filesystem"))
        << word;
  }
}

// Refused are options that name a part of it or another device, or mount a damaged one.
TEST(MountOptionsTest, BtrfsAllowsHarmlessOptionsOnly) {
  for (const char* flag :
       {"subvol=/",        "subvolid=5",         "device=/dev/sda",  "degraded",    "nobarrier",        "rescue=all",
        "skip_balance",    "fatal_errors=panic", "usebackuproot",    "zlib:1",      "compress=zlib:10", "norecovery",
        "nologreplay",     "clear_cache",        "enospc_debug",     "space_cache", "space_cache=v1",   "discard=",
        "discard=x",       "compress=gzip",      "compress=zstd:16", "compress=",   "commit=0",         "commit=301",
        "max_inline=4096", "thread_pool=0",      "thread_pool=65",   "acl=1"}) {
    EXPECT_THAT(ParseMountFlags("btrfs", {flag}), FailsWith(StatusCode::kInvalidArgument, "mount flag")) << flag;
  }
}

TEST(MountOptionsTest, OptionsOfNfsAreThoseOfAPool) {
  EXPECT_EQ(Options(kNfsFsType, {"nconnect=4", "vers=4.1,hard", "timeo=100"}), "hard,nconnect=4,timeo=100,vers=4.1");
  for (const char* flag : {"vers=3", "soft", "nconnect=17", "sec=krb5", "fsc", "context=a:b:c", "nolock"}) {
    EXPECT_THAT(ParseMountFlags(kNfsFsType, {flag}), FailsWith(StatusCode::kInvalidArgument, "mount flag")) << flag;
  }
  EXPECT_TRUE(IsAllowed(kNfsFsType, {"addr", "fd00::1"}));
  EXPECT_FALSE(IsAllowed(kNfsFsType, {"addr", "nas.lan"}));
  EXPECT_EQ(Options("nfs", {"ro,noatime"}), "defaults");
  const auto repeated = ParseMountFlags("nfs", {"nfsvers=4.1,rsize=4096"});
  EXPECT_EQ(ToString(repeated->of_pool), "vers=4.1,rsize=4096");
  EXPECT_THAT(repeated->options, ::testing::IsEmpty());
  EXPECT_THAT(ParseMountFlags("nfs", {"nfsvers=3"}), FailsWith(StatusCode::kInvalidArgument, "not allowed"));
}

}  // namespace
}  // namespace mooring::testing

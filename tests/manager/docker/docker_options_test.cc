#include <map>

#include "base/status.h"
#include "manager/docker/create_options.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

std::map<std::string, std::string> In(const Secrets& secrets) {
  std::map<std::string, std::string> pairs;
  secrets.CopyTo(pairs);
  return pairs;
}

TEST(DockerOptionsTest, DefaultsWithoutOptions) {
  const auto options = ParseDockerOptions({});
  ASSERT_OK(options);
  EXPECT_EQ(options->min_bytes, 0U);
  EXPECT_FALSE(options->access.has_value());
  EXPECT_FALSE(options->read_only);
  EXPECT_EQ(options->propagation, Propagation::kPrivate);
  EXPECT_TRUE(options->secrets.empty());
}

TEST(DockerOptionsTest, ParsesAllOptions) {
  const auto options = ParseDockerOptions({{"size", "1GiB"},
                                           {"max-size", "2GiB"},
                                           {"plugin", "mooring.csi"},
                                           {"fs-type", "xfs"},
                                           {"mount-flags", "noatime,nosuid"},
                                           {"access", "single-node-writer"},
                                           {"propagation", "host-to-task"},
                                           {"from-snapshot", "snap-1"},
                                           {"param.pool", "fast"},
                                           {"secret.key", "hunter2"}});
  ASSERT_OK(options);
  EXPECT_EQ(options->min_bytes, 1024U * 1024 * 1024);
  EXPECT_EQ(options->max_bytes, 2U * 1024 * 1024 * 1024);
  EXPECT_EQ(options->plugin, "mooring.csi");
  EXPECT_EQ(options->mount_options.fs_type, "xfs");
  EXPECT_THAT(options->mount_options.flags, ElementsAre("noatime", "nosuid"));
  EXPECT_EQ(options->access, AccessMode::kSingleNodeWriter);
  EXPECT_EQ(options->propagation, Propagation::kSlave);
  EXPECT_EQ(options->from_snapshot, "snap-1");
  EXPECT_THAT(options->parameters, ElementsAre(Pair("pool", "fast")));
  EXPECT_THAT(In(options->secrets), ElementsAre(Pair("key", "hunter2")));
}

TEST(DockerOptionsTest, OwnerAndModeAreParametersOfThePlugin) {
  const auto options =
      ParseDockerOptions({{"uid", "999"}, {"GID", "998"}, {"mode", "0750"}, {"param.inodeSize", "512"}});
  ASSERT_OK(options);
  EXPECT_THAT(options->parameters,
              ElementsAre(Pair("gid", "998"), Pair("inodeSize", "512"), Pair("mode", "0750"), Pair("uid", "999")));
  EXPECT_THAT(ParseDockerOptions({{"uid", "1"}, {"param.uid", "1"}}), FailsWith(Code::kInvalidArgument, "given twice"));
}

TEST(DockerOptionsTest, KeysIgnoreCaseAndHyphens) {
  for (const char* key : {"fs-type", "fsType", "fs_type", "FSTYPE"}) {
    const auto options = ParseDockerOptions({{key, "ext4"}});
    ASSERT_OK(options) << key;
    EXPECT_EQ(options->mount_options.fs_type, "ext4") << key;
  }
}

TEST(DockerOptionsTest, ReportsAllFaultsAtOnce) {
  const auto options = ParseDockerOptions({{"size", "big"}, {"colour", "red"}, {"access", "mine"}, {"ro", "perhaps"}});
  EXPECT_EQ(options.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(Message(options.status()),
              AllOf(HasSubstr("-o 'size': 'big'"), HasSubstr("-o 'colour'"), HasSubstr("-o 'access'"),
                    HasSubstr("-o 'ro'"), HasSubstr("single-node-writer"), HasSubstr("fs-type")));
}

// Docker prints a line break as \n.
TEST(DockerOptionsTest, FaultsAreOnOneLine) {
  const auto options = ParseDockerOptions({{"size", "5"}, {"colour", "red"}, {"propagation", "odd"}});
  EXPECT_THAT(Message(options.status()), AllOf(HasSubstr("; -o 'size': '5' has no unit"), Not(HasSubstr("\n"))));
}

TEST(DockerOptionsTest, ChecksSourceAndSizes) {
  EXPECT_THAT(ParseDockerOptions({{"from-snapshot", "a"}, {"from-volume", "b"}}),
              FailsWith(Code::kInvalidArgument, "one source"));
  EXPECT_THAT(ParseDockerOptions({{"size", "2GiB"}, {"max-size", "1GiB"}}),
              FailsWith(Code::kInvalidArgument, "max-size is less"));
}

TEST(DockerOptionsTest, ReaderModesAreReadOnlyWithoutBidirectionalPropagation) {
  const auto options = ParseDockerOptions({{"access", "multi-node-reader-only"}});
  ASSERT_OK(options);
  EXPECT_TRUE(options->read_only);
  for (const char* key : {"ro", "access"}) {
    const std::string value = std::string(key) == "ro" ? "" : "single-node-reader-only";
    EXPECT_THAT(ParseDockerOptions({{key, value}, {"propagation", "bidirectional"}}),
                FailsWith(Code::kInvalidArgument, "needs write access"));
  }
}

TEST(DockerOptionsTest, SecretsFileIsNeverQuoted) {
  const TempDir directory;
  const std::string path = directory / "secrets";
  std::ofstream(path) << "# of the storage\n\nuser=admin\npassword=a = b\r\n";
  const auto options = ParseDockerOptions({{"secrets-file", path}});
  ASSERT_OK(options);
  EXPECT_THAT(In(options->secrets), ElementsAre(Pair("password", "a = b"), Pair("user", "admin")));

  std::ofstream(path) << "user=admin\nhunter2\n";
  const auto broken = ParseDockerOptions({{"secrets-file", path}});
  EXPECT_THAT(Message(broken.status()), AllOf(HasSubstr("line 2"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(ParseDockerOptions({{"secrets-file", directory / "none"}}),
              FailsWith(Code::kInvalidArgument, "No such file"));
  EXPECT_THAT(ParseDockerOptions({{"secrets-file", "../etc/passwd"}}),
              FailsWith(Code::kInvalidArgument, "secrets-file"));
}

}  // namespace
}  // namespace mooring::manager

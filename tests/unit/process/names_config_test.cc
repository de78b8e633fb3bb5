// Flags and variables of the plugin that name the driver, its node, and its paths at kubelet.
#include <cstdlib>

#include "tests/unit/process/config_fixture.h"

namespace mooring::testing {
namespace {

// CSI allows 256 bytes for a node's id, and 63 for the value of a topology segment.
TEST_F(ConfigTest, TheLongestNamesOfHostsAndNodesAreNodeIds) {
  for (const std::size_t length : {63U, 64U, 253U, 256U}) {
    const auto value_of = [&](char last) {
      const absl::StatusOr<Config> config = ParseServing({"--node-id", std::string(length - 1, 'n') + last});
      EXPECT_OK(config) << length;
      return config->topology.at("topology.mooring.csi/node");
    };
    EXPECT_LE(value_of('a').size(), 63U);
    EXPECT_NE(value_of('a'), value_of('b')) << "nodes whose names differ at the end";
  }
}

TEST_F(ConfigTest, PathsOfKubeletAreTakenAsPathsOfTheHost) {
  const auto config = ParseServing({"--kubelet-registration-dir", "/var/lib/kubelet/plugins_registry/"});
  ASSERT_OK(config);
  EXPECT_EQ(config->kubelet_registration_dir, "/var/lib/kubelet/plugins_registry");
  EXPECT_EQ(config->kubelet_endpoint, "/run/csi.sock");
}

TEST_F(ConfigTest, PathsInAContainerNeedTheKubeletEndpoint) {
  ExpectRefused(
      {"--kubelet-registration-dir", "/registration"},
      "--kubelet-endpoint is missing: --kubelet-registration-dir '/registration' is not the path that kubelet "
      "has for it (…/plugins_registry), so '/run/csi.sock' will be another for it, too: give it, as "
      "/var/lib/kubelet/plugins/mooring.csi/csi.sock");
  ::setenv("MOORING_KUBELET_REGISTRATION_DIR", "/registration", 1);
  ::setenv("MOORING_KUBELET_ENDPOINT", "unix:///k/plugins/mooring.csi//csi.sock", 1);
  const auto config = ParseServing({});
  ASSERT_OK(config);
  EXPECT_EQ(config->kubelet_endpoint, "/k/plugins/mooring.csi/csi.sock");
}

TEST_F(ConfigTest, RefusesARegistrationThatKubeletWouldRefuse) {
  const std::string directory = "/var/lib/kubelet/plugins_registry";
  ExpectRefused({"--kubelet-registration-dir", directory, "--mode", "controller"}, "not with --mode controller");
  ExpectRefused({"--kubelet-registration-dir", "/run"}, "that is where --endpoint is");
  ExpectRefused({"--kubelet-registration-dir", "relative"}, "--kubelet-registration-dir");
  ExpectRefused({"--kubelet-registration-dir", "/" + std::string(95, 'd')}, "the limit of a socket address is 107");
  ExpectRefused({"--kubelet-endpoint", "/k/csi.sock"}, "give --kubelet-registration-dir, too");
  ExpectRefused({"--kubelet-registration-dir", directory, "--kubelet-endpoint", "tcp://h:1"}, "--kubelet-endpoint");
}

TEST_F(ConfigTest, ADriverNameIsADomainNameBetweenLetters) {
  for (const char* name : {"a", "mooring", "mooring.csi", "a-b.c9d.org", "A.b"}) {
    EXPECT_OK(ParseServing({"--driver-name", name})) << name;
  }
  EXPECT_OK(ParseServing({"--driver-name", std::string(54, 'a')}));
  for (const std::string& name :
       {std::string("1a"), std::string("a1"), std::string(".a"), std::string("a..b"), std::string("a_b"),
        std::string("a/b"), std::string("a-.b"), std::string("a b"), std::string("a\n"), std::string(55, 'a')}) {
    ExpectRefused({"--driver-name", name}, "--driver-name");
  }
}

TEST_F(ConfigTest, TopologyKeysGetThePrefixOrHaveExactlyIt) {
  ExpectRefused({"--topology", "zone"}, "use key=value");
  ExpectRefused({"--topology", "=a"}, "the key");
  ExpectRefused({"--topology", "zone="}, "the value");
  ExpectRefused({"--topology", "zone=a b"}, "the value");
  ExpectRefused({"--topology", "other.example/zone=a"}, "topology.mooring.csi/");
  ExpectRefused({"--topology", "topology.mooring.csi/a/b=c"}, "the key");
  ExpectRefused({"--topology", "topology.kubernetes.io/zone=a"}, "prefix");
  ExpectRefused({"--topology", "zone=a", "--topology", "Zone=b"}, "twice");
  ExpectRefused({"--topology", "node=other"}, "--node-id");
  ExpectRefused({"--topology", std::string(64, 'k') + "=v"}, "the key");
  ExpectRefused({"--topology", "k=" + std::string(64, 'v')}, "the value");
  EXPECT_OK(ParseServing({"--topology", std::string(63, 'k') + "=" + std::string(63, 'v')}));
}

}  // namespace
}  // namespace mooring::testing

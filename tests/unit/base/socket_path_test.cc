#include "base/socket_path.h"

#include "absl/status/status.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

TEST(ParseSocketPathTest, ParsesEveryForm) {
  EXPECT_EQ(*ParseSocketPath("unix:///csi/csi.sock"), "/csi/csi.sock");
  EXPECT_EQ(*ParseSocketPath("unix://csi/csi.sock"), "/csi/csi.sock");
  EXPECT_EQ(*ParseSocketPath("unix:/csi/csi.sock"), "/csi/csi.sock");
  EXPECT_EQ(*ParseSocketPath("unix:csi.sock"), "csi.sock");
  EXPECT_EQ(*ParseSocketPath("/csi/csi.sock"), "/csi/csi.sock");
  EXPECT_EQ(*ParseSocketPath("./csi.sock"), "./csi.sock");
}

TEST(ParseSocketPathTest, KeepsOddCharactersOfAPath) {
  EXPECT_EQ(*ParseSocketPath("unix:///a b/100%?#.sock"), "/a b/100%?#.sock");
}

TEST(ParseSocketPathTest, RefusesOtherSchemes) {
  for (const char* endpoint : {"", "unix:", "unix://", "tcp://127.0.0.1:1", "tcp:127.0.0.1:1", "http://host/x",
                               "unix-abstract:name", "dns:///host"}) {
    const auto path = ParseSocketPath(endpoint);
    ASSERT_FALSE(path.ok()) << endpoint << " gave " << *path;
    EXPECT_TRUE(absl::IsInvalidArgument(path.status()));
    EXPECT_NE(Message(path.status()).find("unix:///path/csi.sock"), std::string::npos) << path.status();
  }
}

TEST(ParseSocketPathTest, RefusesALongPath) {
  EXPECT_OK(ParseSocketPath("/" + std::string(106, 'a')));
  const auto path = ParseSocketPath("/" + std::string(107, 'a'));
  ASSERT_FALSE(path.ok());
  EXPECT_NE(Message(path.status()).find("has 108 bytes, and the limit of a socket address is 107"), std::string::npos)
      << path.status();
}

TEST(GrpcTargetTest, EncodesSpecialCharacters) {
  EXPECT_EQ(GrpcTarget("/csi/csi-1_2.sock~"), "unix:/csi/csi-1_2.sock~");
  EXPECT_EQ(GrpcTarget("/a b/100%?#"), "unix:/a%20b/100%25%3F%23");
  EXPECT_EQ(GrpcTarget("/\xC3\xA9"), "unix:/%C3%A9");
}

}  // namespace
}  // namespace mooring::testing

#include <gtest/gtest.h>

#include "cli/endpoint.h"

namespace mooring::cli {
namespace {

TEST(GrpcTargetTest, EncodesWhatAUriCannotHold) {
  EXPECT_EQ(GrpcTarget("/csi/csi-1_2.sock~"), "unix:/csi/csi-1_2.sock~");
  EXPECT_EQ(GrpcTarget("/a b/100%?#"), "unix:/a%20b/100%25%3F%23");
  EXPECT_EQ(GrpcTarget("/\xC3\xA9"), "unix:/%C3%A9");
}

}  // namespace
}  // namespace mooring::cli

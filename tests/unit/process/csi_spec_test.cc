// csi.proto stays wire-identical to CSI 1.12. The compiled descriptor has no comments, so they may change.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.pb.h>
#include <openssl/sha.h>

#include <array>

#include "csi.pb.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

TEST(CsiSpecTest, CompiledProtoIsThatOfCsi112) {
  google::protobuf::FileDescriptorProto descriptor;
  csi::v1::VolumeCapability::descriptor()->file()->CopyTo(&descriptor);
  const std::string bytes = descriptor.SerializeAsString();
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest = {};
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  EXPECT_EQ(fmt::format("{:02x}", fmt::join(digest, "")),
            "e3a8ce3635e8551e4aa559381276414b88fad4e880542ebd77997710dee95b06")
      << "csi.proto has changed. Undo that, or compare it with the csi.proto of a newer CSI and put the new sum here.";
}

}  // namespace
}  // namespace mooring::testing

// The key that encrypts secrets in a shared state: its forms, and what it opens.
#include "manager/etcd/sealed_values.h"

#include <sys/stat.h>

#include <cctype>

#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

class SealedValuesTest : public ::testing::Test {
 protected:
  absl::StatusOr<SealedValues> WithKey(const std::string& text) {
    const std::string file = directory_ / "key";
    std::ofstream(file) << text;
    ::chmod(file.c_str(), 0600);
    return SealedValues::Open(file);
  }

  TempDir directory_;
};

constexpr char kHex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";

TEST_F(SealedValuesTest, AKeyIsTheSameInHexAndBase64) {
  const auto sealed_by = WithKey(kHex);
  ASSERT_OK(sealed_by);
  const auto sealed = sealed_by->Seal("name", "secret");
  ASSERT_OK(sealed);
  std::string upper = kHex;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  for (const std::string& same :
       {upper, " " + upper + "\n", std::string("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8=")}) {
    const auto other = WithKey(same);
    ASSERT_OK(other) << same;
    const auto opened = other->Unseal("name", *sealed);
    ASSERT_OK(opened) << same;
    EXPECT_EQ(*opened, "secret");
  }
}

TEST_F(SealedValuesTest, OtherTextIsNoKey) {
  const std::string hex = kHex;
  for (const std::string& text :
       {std::string(), hex.substr(2), hex + "00", hex.substr(0, 63) + "g", "00:01:" + hex.substr(6),
        std::string("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==")}) {
    EXPECT_THAT(WithKey(text), FailsWith(Code::kFailedPrecondition, "32 bytes in base64 or hex")) << text;
  }
}

}  // namespace
}  // namespace mooring::manager

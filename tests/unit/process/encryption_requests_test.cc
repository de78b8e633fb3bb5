// The secret and the parameters of CreateVolume and its siblings that are about encryption.
#include "plugin/api/controller_requests.h"
#include "plugin/model/secrets.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

Pools PlainAndSecret() {
  std::vector<Pool> pools;
  pools.push_back({.name = std::string(kDefaultPool)});
  pools.push_back({.name = "secret", .kind = BackendKind::kLuks});
  pools.push_back({.name = "vault", .kind = BackendKind::kLuks});
  return Pools(std::move(pools));
}

class EncryptionRequestsTest : public ::testing::Test {
 protected:
  using Request = csi::v1::CreateVolumeRequest;

  static csi::v1::VolumeCapability Mount() {
    csi::v1::VolumeCapability capability;
    capability.mutable_access_mode()->set_mode(csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
    capability.mutable_mount();
    return capability;
  }
  static Request Create(const std::string& pool, const std::map<std::string, std::string>& parameters = {}) {
    Request request;
    request.set_name("pvc-1");
    *request.add_volume_capabilities() = Mount();
    if (!pool.empty()) (*request.mutable_parameters())["pool"] = pool;
    for (const auto& [key, value] : parameters) (*request.mutable_parameters())[key] = value;
    return request;
  }
  static Request WithPassphrase(Request request, const std::string& passphrase) {
    (*request.mutable_secrets())["encryptionPassphrase"] = passphrase;
    return request;
  }
  absl::StatusOr<CreateVolumeSpec> Parse(const Request& request, const SourceFacts& source = {}) const {
    return ParseCreateVolume(request, pools_, source);
  }

  const Pools pools_ = PlainAndSecret();
};

TEST_F(EncryptionRequestsTest, ThePassphraseIsASecretOfItsOwnName) {
  EXPECT_EQ(Parse(WithPassphrase(Create("secret"), "horse"))->passphrase, "horse");
  EXPECT_EQ(Parse(WithPassphrase(Create("secret"), std::string(512, 'x')))->passphrase, std::string(512, 'x'));
  Request other = Create("secret");
  (*other.mutable_secrets())["passphrase"] = "horse";
  EXPECT_EQ(Parse(other)->passphrase, "");
  for (const std::string& wrong : {std::string(), std::string(513, 'x')}) {
    const auto parsed = Parse(WithPassphrase(Create("secret"), wrong));
    EXPECT_THAT(parsed, FailsWith(StatusCode::kInvalidArgument, "a passphrase has 1 to 512"));
    EXPECT_THAT(Message(parsed.status()), Not(HasSubstr("xxx")));
  }
}

TEST_F(EncryptionRequestsTest, APassphraseForAPoolThatDoesNotEncryptIsRefused) {
  const auto parsed = Parse(WithPassphrase(Create(""), "horse"));
  EXPECT_THAT(parsed, FailsWith(StatusCode::kInvalidArgument, "secret encryptionPassphrase: pool default"));
  EXPECT_THAT(Message(parsed.status()), Not(HasSubstr("horse")));
  EXPECT_OK(Parse(WithPassphrase(Create("", {{"encrypted", "false"}}), "horse")));
}

TEST_F(EncryptionRequestsTest, ThePoolDecidesAndTheParameterMustAgree) {
  EXPECT_OK(Parse(Create("")));
  EXPECT_OK(Parse(Create("secret")));
  EXPECT_OK(Parse(Create("", {{"encrypted", "false"}})));
  EXPECT_EQ(Parse(Create("secret", {{"encrypted", "true"}}))->encrypted, true);
  EXPECT_THAT(Parse(Create("", {{"encrypted", "true"}})),
              FailsWith(StatusCode::kInvalidArgument, "name a pool of backend luks (secret, vault)"));
  EXPECT_THAT(ParseCreateVolume(Create("", {{"encrypted", "true"}})),
              FailsWith(StatusCode::kInvalidArgument, "this plugin has none: --pool name=NAME,backend=luks"));
  EXPECT_THAT(Parse(Create("secret", {{"encrypted", "false"}})),
              FailsWith(StatusCode::kInvalidArgument, "pool secret encrypts all of its volumes"));
  EXPECT_THAT(Parse(Create("secret", {{"encrypted", "yes"}})),
              FailsWith(StatusCode::kInvalidArgument, "parameter encrypted 'yes'"));
}

TEST_F(EncryptionRequestsTest, TheWordsOfOtherDriversAreRefused) {
  for (const char* key : {"encryption", "luks", "Encrypt", "Encrypted", "kmsKeyId", "encryptionKMSID"}) {
    for (const char* pool : {"", "secret"}) {
      EXPECT_THAT(Parse(Create(pool, {{key, "true"}})),
                  FailsWith(StatusCode::kInvalidArgument, "encrypts the volumes of pools with backend luks"))
          << key;
    }
  }
}

// The catalog knows the pool later, or says that there is no such source.
TEST_F(EncryptionRequestsTest, ACopyOfAnUnknownSourceIsNotRefusedForItsPool) {
  Request copy = WithPassphrase(Create("", {{"encrypted", "true"}}), "horse");
  copy.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id("snap-1");
  EXPECT_OK(Parse(copy));
  EXPECT_OK(Parse(copy, {.fs_type = "ext4", .pool = "secret"}));
  EXPECT_THAT(Parse(copy, {.fs_type = "ext4", .pool = "default"}),
              FailsWith(StatusCode::kInvalidArgument, "does not encrypt"));
}

TEST_F(EncryptionRequestsTest, CapacityIsThatOfPoolsThatAgree) {
  const auto is_possible = [&](const std::string& pool, const std::string& encrypted) {
    csi::v1::GetCapacityRequest request;
    (*request.mutable_parameters())["pool"] = pool;
    (*request.mutable_parameters())["encrypted"] = encrypted;
    return ParseGetCapacity(request, pools_).possible;
  };
  EXPECT_TRUE(is_possible("secret", "true"));
  EXPECT_TRUE(is_possible("default", "false"));
  EXPECT_FALSE(is_possible("default", "true"));
  EXPECT_FALSE(is_possible("secret", "false"));
}

TEST_F(EncryptionRequestsTest, OnlyAVolumeOfAnEncryptedPoolIsConfirmedAsEncrypted) {
  const auto why_not = [&](const std::string& pool, BackendKind kind) {
    VolumeInfo volume;
    volume.pool = pool;
    volume.kind = kind;
    volume.bytes = kGiB;
    volume.fs_type = "ext4";
    csi::v1::ValidateVolumeCapabilitiesRequest request;
    *request.add_volume_capabilities() = Mount();
    (*request.mutable_parameters())["encrypted"] = "true";
    return Message(CheckConfirmed(volume, request, pools_));
  };
  EXPECT_EQ(why_not("secret", BackendKind::kLuks), "");
  EXPECT_THAT(why_not("default", BackendKind::kImage), HasSubstr("does not encrypt"));
}

}  // namespace
}  // namespace mooring::testing

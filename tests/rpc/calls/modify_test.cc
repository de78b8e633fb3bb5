// ControllerModifyVolume changes a volume, also while it is in use.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

class Modify : public RpcTest {
 protected:
  Answer<csi::v1::ControllerModifyVolumeResponse> Change(const std::string& id, const Parameters& parameters) {
    csi::v1::ControllerModifyVolumeRequest request;
    request.set_volume_id(id);
    request.mutable_mutable_parameters()->insert(parameters.begin(), parameters.end());
    return driver().Send(request);
  }
  void Refuse(const std::string& id, const Parameters& parameters, Code code, const std::string& piece) {
    ExpectRefused([&] { return Change(id, parameters); }, code, piece);
  }
  static std::string ReadAhead(const std::string& device) {
    return ReadFile("/sys/block/" + fs::path(device).filename().string() + "/queue/read_ahead_kb");
  }
  std::string ReadAheadOf(const std::string& id) {
    const std::vector<LoopLine> loops = LoopsOver(Image(id));
    return loops.size() == 1 ? ReadAhead(loops[0].device) : "not one device";
  }
  static bool IsNoatime(const std::string& path) {
    const auto mount = MountAt(path);
    return mount && mount->Has("noatime");
  }
};

TEST_F(Modify, ChangesAVolumeInUseAndLasts) {
  const std::string id = Created(kSharedMount), other = Created(kSharedMount);
  const std::string staging = Staging(id), target = Target("a"), later = Target("b");
  ASSERT_OK(driver().Stage(id, staging, kSharedMount));
  ASSERT_OK(driver().Publish(id, staging, target, kSharedMount));
  ASSERT_FALSE(IsNoatime(target));
  const std::string before = ReadAheadOf(id);
  for (int i = 0; i < 3; ++i) ASSERT_OK(Change(id, {{"readAhead", "1MiB"}, {"noatime", "true"}}));
  EXPECT_EQ(ReadAheadOf(id), "1024\n");
  EXPECT_TRUE(IsNoatime(staging));
  EXPECT_TRUE(IsNoatime(target));
  ASSERT_OK(driver().Stage(id, staging, kSharedMount));
  ASSERT_OK(driver().Publish(id, staging, target, kSharedMount));
  ASSERT_OK(driver().Publish(id, staging, later, kSharedMount));
  EXPECT_TRUE(IsNoatime(later));
  Restart(SIGKILL);
  for (const std::string& path : {target, later}) ASSERT_OK(driver().Unpublish(id, path));
  ASSERT_OK(driver().Unstage(id, staging));
  ASSERT_TRUE(Eventually([&] { return LoopsOver(Image(id)).empty(); }));
  // The next volume on that device has the usual value.
  ASSERT_OK(driver().Stage(other, Staging(other), kSharedMount));
  EXPECT_EQ(ReadAheadOf(other), before);
  ASSERT_OK(driver().Stage(id, staging, kSharedMount));
  EXPECT_EQ(ReadAheadOf(id), "1024\n");
  ASSERT_OK(driver().Publish(id, staging, target, kSharedMount));
  EXPECT_TRUE(IsNoatime(target));
  ASSERT_OK(Change(id, {{"noatime", "false"}, {"readAhead", "0"}}));
  EXPECT_FALSE(IsNoatime(staging));
  EXPECT_FALSE(IsNoatime(target));
  EXPECT_EQ(ReadAheadOf(id), before);
}

TEST_F(Modify, ResetRestoresTheFlagsOfEachMount) {
  const VolumeCapability quiet = Mount("", kMultiWriter, {"noatime"});
  const VolumeCapability strict = Mount("", kMultiWriter, {"strictatime"});
  const std::string id = Created(quiet);
  const std::string staging = Staging(id), target = Target("a");
  ASSERT_OK(driver().Stage(id, staging, quiet));
  ASSERT_OK(driver().Publish(id, staging, target, strict));
  ASSERT_OK(Change(id, {{"noatime", "true"}}));
  EXPECT_TRUE(IsNoatime(target));
  EXPECT_OK(driver().Publish(id, staging, target, strict));
  ASSERT_OK(Change(id, {{"noatime", "false"}}));
  EXPECT_TRUE(IsNoatime(staging));
  EXPECT_FALSE(IsNoatime(target));
  EXPECT_FALSE(MountAt(target)->Has("relatime"));
  EXPECT_OK(driver().Stage(id, staging, quiet));
  EXPECT_OK(driver().Publish(id, staging, target, strict));
}

TEST_F(Modify, ChangesABlockVolumeAndItsReadOnlyDevice) {
  const std::string id = Created(kSharedBlock);
  const std::string staging = Staging(id);
  ASSERT_OK(driver().Stage(id, staging, kSharedBlock));
  ASSERT_OK(driver().Publish(id, staging, Target("rw"), kSharedBlock));
  ASSERT_OK(Change(id, {{"readAhead", "256KiB"}}));
  EXPECT_EQ(ReadAheadOf(id), "256\n");
  ASSERT_OK(driver().Unpublish(id, Target("rw")));
  const std::string device = LoopsOver(Image(id)).at(0).device;
  ASSERT_OK(driver().Publish(id, staging, Target("ro"), kSharedBlock, true));
  ASSERT_EQ(LoopsOver(device).size(), 1U);
  EXPECT_EQ(ReadAhead(LoopsOver(device)[0].device), "256\n");
  ASSERT_OK(Change(id, {{"readAhead", "64KiB"}}));
  EXPECT_EQ(ReadAhead(LoopsOver(device)[0].device), "64\n");
}

TEST_F(Modify, InvalidParametersAreRefusedAndNothingIsApplied) {
  const std::string id = Created();
  const std::string staging = Staging(id);
  ASSERT_OK(driver().Stage(id, staging));
  Refuse(id, {{"noatime", "true"}, {"colour", "blue"}}, Code::kInvalidArgument, "'colour' is unknown");
  Refuse(id, {{"noatime", "true"}, {"readAhead", "1000B"}}, Code::kInvalidArgument, "multiple of 4KiB");
  Refuse(id, {{"noatime", "true"}, {"readAhead", "1GiB"}}, Code::kInvalidArgument, "up to 64MiB");
  Refuse(id, {{"noatime", "true"}, {"readAhead", "-1"}}, Code::kInvalidArgument, "readAhead");
  Refuse(id, {{"readAhead", "8KiB"}, {"noatime", "yes"}}, Code::kInvalidArgument, "neither true nor false");
  Refuse(id, {}, Code::kInvalidArgument, "mutable_parameters is missing");
  Refuse("", {{"noatime", "true"}}, Code::kInvalidArgument, "volume_id is missing");
  Refuse("x", {{"colour", "blue"}}, Code::kInvalidArgument, "unknown");
  for (const std::string& strange : StrangeIds()) {
    Refuse(strange, {{"noatime", "true"}}, Code::kNotFound, "does not exist");
  }
  EXPECT_FALSE(IsNoatime(staging));
}

TEST_F(Modify, CreateAcceptsMutableParameters) {
  CreateVolumeRequest request = CreateRequest("tuned");
  (*request.mutable_mutable_parameters())["readAhead"] = "512KiB";
  (*request.mutable_mutable_parameters())["noatime"] = "true";
  const auto made = driver().Send(request);
  ASSERT_OK(made);
  const std::string id = made->volume().volume_id(), staging = Staging(id);
  ASSERT_OK(Change(id, {{"noatime", "false"}}));
  const auto again = driver().Send(request);
  ASSERT_OK(again);
  EXPECT_EQ(again->volume().volume_id(), id);
  ASSERT_OK(driver().Stage(id, staging));
  EXPECT_FALSE(IsNoatime(staging));
  EXPECT_EQ(ReadAheadOf(id), "512\n");
  (*request.mutable_mutable_parameters())["readAhead"] = "much";
  ExpectRefused(request, Code::kInvalidArgument, "readAhead");
  ValidateVolumeCapabilitiesRequest validate = ValidateRequest(id, Mount());
  (*validate.mutable_mutable_parameters())["noatime"] = "true";
  const auto confirmed = driver().Send(validate);
  EXPECT_EQ(confirmed->confirmed().mutable_parameters().at("noatime"), "true");
  (*validate.mutable_mutable_parameters())["noatime"] = "1";
  EXPECT_FALSE(driver().Send(validate)->has_confirmed());
}

TEST_F(Modify, APoolOfImagesEncryptsNothingAndSecretsAreNotLogged) {
  for (const char* const key : {"encrypted", "encryption", "luks", "Encrypt", "kmsKeyId"}) {
    CreateVolumeRequest request = CreateRequest("secret", Mount(), 0, {{key, "true"}});
    (*request.mutable_secrets())["passphrase"] = "never-to-be-logged";
    ExpectRefused(request, Code::kInvalidArgument, "backend luks");
    request.clear_parameters();
    const auto made = driver().Send(request);
    EXPECT_OK(made);
    csi::v1::ControllerModifyVolumeRequest change;
    change.set_volume_id(made->volume().volume_id());
    (*change.mutable_mutable_parameters())["noatime"] = "true";
    (*change.mutable_secrets())["passphrase"] = "never-to-be-logged";
    EXPECT_OK(driver().Send(change));
    EXPECT_OK(driver().Delete(made->volume().volume_id()));
  }
  EXPECT_THAT(plugin().Log(), HasSubstr("ControllerModifyVolume"));
  EXPECT_THAT(plugin().Log(), Not(HasSubstr("never-to-be-logged")));
}

}  // namespace
}  // namespace mooring::testing

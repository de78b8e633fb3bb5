// Parsing of API requests, and redaction of answers and logs.
#include "manager/api/messages.h"
#include "rpc/redact.h"
#include "tests/manager/prelude.h"

namespace mooring::manager {
namespace {

Volume WithCapabilities(const std::vector<Capability>& capabilities) {
  Volume volume;
  volume.key.id = "db";
  volume.plugin = "p";
  volume.capabilities = capabilities;
  return volume;
}

const Volume kWriter = WithCapabilities({{AccessMode::kMultiNodeReaderOnly, AttachmentMode::kFileSystem},
                                         {AccessMode::kSingleNodeWriter, AttachmentMode::kBlockDevice},
                                         {AccessMode::kSingleNodeWriter, AttachmentMode::kFileSystem}});

v1::AttachRequest AttachOf(const std::string& allocation) {
  v1::AttachRequest request;
  request.mutable_volume()->set_id("db");
  request.set_allocation(allocation);
  return request;
}

TEST(ApiRequests, EmptyNamespaceMeansDefault) {
  v1::VolumeKey key;
  key.set_id("db");
  EXPECT_EQ(*KeyOf(key), (VolumeKey{"default", "db"}));
  key.set_namespace_("prod");
  EXPECT_EQ(*KeyOf(key), (VolumeKey{"prod", "db"}));
  key.set_id("");
  EXPECT_THAT(KeyOf(key), FailsWith(Code::kInvalidArgument, "volume's id"));
}

TEST(ApiRequests, ChoosesFirstCapabilityThatAllowsTheMode) {
  EXPECT_EQ(*ChooseCapability(kWriter, nullptr, ClaimMode::kRead), kWriter.capabilities[0]);
  EXPECT_EQ(*ChooseCapability(kWriter, nullptr, ClaimMode::kWrite), kWriter.capabilities[1]);
  v1::Capability asked;
  asked.set_attachment(v1::FILE_SYSTEM);
  EXPECT_EQ(*ChooseCapability(kWriter, &asked, ClaimMode::kWrite), kWriter.capabilities[2]);
  asked.set_access(v1::MULTI_NODE_MULTI_WRITER);
  EXPECT_EQ(ChooseCapability(kWriter, &asked, ClaimMode::kWrite)->access, AccessMode::kMultiNodeMultiWriter)
      << "the claim says that it has it not";
  EXPECT_THAT(ChooseCapability(WithCapabilities({kWriter.capabilities[0]}), nullptr, ClaimMode::kWrite),
              FailsWith(Code::kInvalidArgument, "write"));
}

TEST(ApiRequests, AttachWritesUnlessReadOnly) {
  v1::AttachRequest request = AttachOf("web-1");
  const auto writing = ParseAttach(request, kWriter);
  ASSERT_OK(writing);
  EXPECT_EQ(writing->mode, ClaimMode::kWrite);
  EXPECT_FALSE(writing->read_only);
  EXPECT_EQ(writing->request, "db");
  request.set_mode(v1::READ);
  EXPECT_TRUE(ParseAttach(request, kWriter)->read_only) << "who may only read gets nothing writable";
  request.clear_mode();
  request.set_read_only(true);
  EXPECT_EQ(ParseAttach(request, kWriter)->mode, ClaimMode::kRead);
}

TEST(ApiRequests, BidirectionalNeedsWriteAccess) {
  v1::AttachRequest request = AttachOf("web-1");
  request.set_propagation(v1::PROPAGATION_SHARED);
  EXPECT_EQ(ParseAttach(request, kWriter)->propagation, Propagation::kShared);
  request.set_read_only(true);
  EXPECT_THAT(ParseAttach(request, kWriter), FailsWith(Code::kInvalidArgument, "write access"));
}

TEST(ApiRequests, ChecksNamesAndPaths) {
  EXPECT_THAT(ParseAttach(AttachOf(""), kWriter), FailsWith(Code::kInvalidArgument, "allocation"));
  EXPECT_THAT(ParseAttach(AttachOf(std::string(256, 'x')), kWriter), FailsWith(Code::kInvalidArgument, "allocation"));
  v1::AttachRequest request = AttachOf("web-1");
  request.set_attach_path("/srv/../etc");
  EXPECT_THAT(ParseAttach(request, kWriter), FailsWith(Code::kInvalidArgument, "path to attach at"));
}

TEST(ApiRequests, ChecksTheJob) {
  v1::AttachRequest request = AttachOf("web-1");
  request.mutable_job()->set_tasks(2);
  EXPECT_THAT(ParseAttach(request, kWriter), FailsWith(Code::kInvalidArgument, ""));
  request.mutable_job()->set_tasks(1);
  EXPECT_OK(ParseAttach(request, kWriter));
}

TEST(ApiRequests, IgnoresFieldsThatOnlyTheManagerSets) {
  v1::Volume message;
  message.mutable_key()->set_id("db");
  message.set_state(v1::Volume::DELETING);
  message.set_created_here(true);
  message.set_exhausted_at_ms(5);
  message.mutable_in_use()->set_access(v1::SINGLE_NODE_WRITER);
  message.mutable_in_use()->set_attachment(v1::FILE_SYSTEM);
  const auto volume = AskedVolume(message, StringMap());
  ASSERT_OK(volume);
  EXPECT_EQ(volume->state, Volume::State::kReady);
  EXPECT_FALSE(volume->created_here);
  EXPECT_FALSE(volume->in_use.has_value());
  EXPECT_FALSE(volume->exhausted_at.has_value());
}

TEST(ApiRequests, EngineIsAPathOrAnEndpoint) {
  v1::PluginRun run;
  run.set_kind(v1::PluginRun::CONTAINER);
  run.set_image("plugin:1");
  EXPECT_EQ(ParseRun(run)->engine, "") << "the manager's own";
  for (const char* engine :
       {"/run/podman/podman.sock", "unix:///run/podman//podman.sock", "unix:/run/podman/podman.sock"}) {
    run.set_engine(engine);
    EXPECT_EQ(ParseRun(run)->engine, "/run/podman/podman.sock") << engine;
  }
  for (const char* engine : {"tcp://127.0.0.1:2375", "podman.sock", "/run/../podman.sock"}) {
    run.set_engine(engine);
    EXPECT_THAT(ParseRun(run), FailsWith(Code::kInvalidArgument, engine)) << engine;
  }
}

TEST(ApiAnswers, HidesMountFlagsAndSecrets) {
  Volume volume = kWriter;
  volume.mount_options.flags = {"password=sesame"};
  volume.secrets = Secrets(StringMap{{"token", "sesame"}});
  const v1::Volume shown = Shown(volume);
  EXPECT_THAT(shown.DebugString(), Not(HasSubstr("sesame")));
  EXPECT_EQ(shown.mount_flags(), 1);
  EXPECT_TRUE(shown.has_secrets());
  AttachmentRecord mount;
  mount.options.flags = {"password=sesame"};
  EXPECT_THAT(Shown(mount).DebugString(), Not(HasSubstr("sesame")));
}

TEST(ApiCalls, ErrorsHideSecretsAndInLogsMountFlags) {
  v1::CreateVolumeRequest request;
  (*request.mutable_secrets())["token"] = "sesame";
  (*request.mutable_secrets())["a"] = "open";
  (*request.mutable_secrets())["b"] = "open wide";
  request.mutable_volume()->mutable_mount_options()->add_flags("password=mellon");
  request.mutable_volume()->mutable_mount_options()->add_flags("ro");
  const std::string text = "the token sesame is wrong, mellon in password=mellon too; 'ro' is for robots";
  EXPECT_EQ(WithoutSecretsOf(request, text, Reader::kLog), "the token *** is wrong, *** in *** too; *** is for robots");
  EXPECT_EQ(WithoutSecretsOf(request, text, Reader::kCaller),
            "the token *** is wrong, *** in password=*** too; 'ro' is for robots");
  EXPECT_EQ(WithoutSecretsOf(request, "open wide, or open", Reader::kCaller), "***, or ***")
      << "none is left of the longer one";
}

}  // namespace
}  // namespace mooring::manager

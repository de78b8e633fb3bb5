#include "plugin/api/controller_requests.h"

#include <limits>

#include "plugin/api/export_words.h"
#include "plugin/api/request_fields.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

using csi::v1::VolumeCapability;
using CsiMode = VolumeCapability::AccessMode;

VolumeCapability Mount(const std::string& fs_type = "") {
  VolumeCapability capability;
  capability.mutable_access_mode()->set_mode(CsiMode::SINGLE_NODE_WRITER);
  capability.mutable_mount()->set_fs_type(fs_type);
  return capability;
}

VolumeCapability Block() {
  VolumeCapability capability;
  capability.mutable_access_mode()->set_mode(CsiMode::SINGLE_NODE_WRITER);
  capability.mutable_block();
  return capability;
}

csi::v1::CreateVolumeRequest Create(const std::vector<VolumeCapability>& capabilities = {Mount()}) {
  csi::v1::CreateVolumeRequest request;
  request.set_name("pvc-1");
  for (const VolumeCapability& capability : capabilities) *request.add_volume_capabilities() = capability;
  return request;
}

csi::v1::Topology Topology(const std::string& key, const std::string& value) {
  csi::v1::Topology topology;
  (*topology.mutable_segments())[key] = value;
  return topology;
}

template <typename Result>
void ExpectInvalid(const Result& result, const std::string& text) {
  ASSERT_TRUE(absl::IsInvalidArgument(result.status())) << result.status() << text;
  EXPECT_THAT(Message(result.status()), HasSubstr(text));
}

using Change = std::function<void(csi::v1::CreateVolumeRequest&)>;

void ExpectCreateInvalid(const Change& change, const std::string& text) {
  csi::v1::CreateVolumeRequest request = Create();
  change(request);
  ExpectInvalid(ParseCreateVolume(request), text);
}

TEST(ParseCreateVolumeTest, AcceptsAMinimalRequest) {
  const absl::StatusOr<CreateVolumeSpec> spec = ParseCreateVolume(Create());
  ASSERT_OK(spec);
  EXPECT_EQ(spec->name, "pvc-1");
  EXPECT_EQ(spec->fs_type, "ext4");
  EXPECT_EQ(spec->minimum_bytes, 16 * kMiB);
  EXPECT_EQ(spec->range.required, 0u);
  EXPECT_EQ(spec->range.limit, 0u);
  EXPECT_THAT(spec->topologies, IsEmpty());
}

TEST(ParseCreateVolumeTest, MissingAndHostileFieldsAreInvalid) {
  ExpectCreateInvalid([](auto& r) { r.clear_name(); }, "name is missing");
  ExpectCreateInvalid([](auto& r) { r.set_name(std::string(129, 'n')); }, "129 bytes, more than 128");
  for (const std::string& name :
       {std::string("a\0b", 3), std::string("a\nb"), std::string("\x7F"), std::string("\x01")}) {
    ExpectCreateInvalid([&](auto& r) { r.set_name(name); }, "control character");
  }
  ExpectCreateInvalid([](auto& r) { r.clear_volume_capabilities(); }, "volume_capabilities is missing");
  ExpectCreateInvalid([](auto& r) { r.mutable_volume_capabilities(0)->clear_access_type(); }, "mount nor block");
  ExpectCreateInvalid([](auto& r) { r.mutable_volume_capabilities(0)->clear_access_mode(); }, "access_mode");
  ExpectCreateInvalid([](auto& r) { r.mutable_volume_capabilities(0)->mutable_mount()->set_fs_type("ntfs"); },
                      "ext4, xfs");
  ExpectCreateInvalid([](auto& r) { r.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags("bind"); },
                      "bind");
  ExpectCreateInvalid([](auto& r) { r.mutable_volume_content_source()->mutable_snapshot(); }, "snapshot_id is missing");
  ExpectCreateInvalid([](auto& r) { r.mutable_volume_content_source()->mutable_volume(); }, "volume_id is missing");
  ExpectCreateInvalid([](auto& r) { r.mutable_volume_content_source(); }, "neither snapshot nor volume");
  ExpectCreateInvalid([](auto& r) { (*r.mutable_mutable_parameters())["iops"] = "1"; }, "mutable parameter 'iops'");
}

TEST(ParseCreateVolumeTest, NamesAreAnyPrintableText) {
  for (const std::string& name : {std::string("../../etc/passwd"), std::string(128, 'n'), std::string("db[0]"),
                                  std::string("\xE6\xB5\x8B\xE8\xAF\x95 volume"), std::string("'; DROP TABLE")}) {
    csi::v1::CreateVolumeRequest request = Create();
    request.set_name(name);
    EXPECT_OK(ParseCreateVolume(request)) << name;
  }
}

TEST(ParseCreateVolumeTest, RangesAreChecked) {
  ExpectCreateInvalid([](auto& r) { r.mutable_capacity_range()->set_required_bytes(-1); }, "negative");
  ExpectCreateInvalid(
      [](auto& r) { r.mutable_capacity_range()->set_limit_bytes(std::numeric_limits<std::int64_t>::min()); },
      "negative");
  ExpectCreateInvalid(
      [](auto& r) {
        r.mutable_capacity_range()->set_required_bytes(2);
        r.mutable_capacity_range()->set_limit_bytes(1);
      },
      "required_bytes 2 is more than limit_bytes 1");
  csi::v1::CreateVolumeRequest request = Create();
  request.mutable_capacity_range()->set_required_bytes(std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(ParseCreateVolume(request)
                  .ok());  // the catalog refuses a size that is too large, after it has looked up the name
}

TEST(ParseCreateVolumeTest, TheFilesystemComesFromParameterOrCapability) {
  const auto parsed = [](const csi::v1::CreateVolumeRequest& request) { return ParseCreateVolume(request)->fs_type; };
  EXPECT_EQ(parsed(Create({Mount("xfs")})), "xfs");
  EXPECT_EQ(parsed(Create({Block()})), "ext4");
  for (const char* key : {"fsType", "csi.storage.k8s.io/fstype"}) {
    csi::v1::CreateVolumeRequest request = Create();
    (*request.mutable_parameters())[key] = "xfs";
    EXPECT_EQ(parsed(request), "xfs");
    *request.mutable_volume_capabilities(0) = Mount("xfs");
    EXPECT_EQ(parsed(request), "xfs");
    *request.mutable_volume_capabilities(0) = Mount("ext4");
    ExpectInvalid(ParseCreateVolume(request), "contradicts 'xfs'");
  }
  ExpectInvalid(ParseCreateVolume(Create({Mount("xfs"), Mount("ext4")})), "contradicts");
  EXPECT_OK(ParseCreateVolume(Create({Mount("xfs"), Mount(), Block()})));
  ExpectCreateInvalid(
      [](auto& r) {
        (*r.mutable_parameters())["fsType"] = "xfs";
        (*r.mutable_parameters())["csi.storage.k8s.io/fstype"] = "ext4";
      },
      "contradicts");
}

TEST(ParseCreateVolumeTest, UnknownParametersAreNamedWithWhatIsKnown) {
  ExpectCreateInvalid([](auto& r) { (*r.mutable_parameters())["type"] = "gp3"; },
                      "parameter 'type' is unknown: this driver knows fsType (ext4, xfs, btrfs)");
  ExpectCreateInvalid([](auto& r) { (*r.mutable_parameters())["fstype"] = "xfs"; }, "knows fsType");
  ExpectCreateInvalid([](auto& r) { (*r.mutable_parameters())["fsType"] = "zfs"; },
                      "parameter fsType 'zfs' is not one of");
  csi::v1::CreateVolumeRequest request = Create();
  (*request.mutable_parameters())["csi.storage.k8s.io/pvc/name"] = "data";
  (*request.mutable_parameters())["csi.storage.k8s.io/pv/name"] = "pvc-1";
  (*request.mutable_parameters())["fsType"] = "";
  EXPECT_OK(ParseCreateVolume(request));
}

TEST(ParseCreateVolumeTest, MountFlagsAreParsedForTheChosenFilesystem) {
  csi::v1::CreateVolumeRequest request = Create();
  request.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags("inode64");
  ExpectInvalid(ParseCreateVolume(request), "inode64");
  (*request.mutable_parameters())["fsType"] = "xfs";
  EXPECT_OK(ParseCreateVolume(request));
}

TEST(ParseCreateVolumeTest, BlockAccessOnlyIsPermanentUnlessAParameterSaysOtherwise) {
  EXPECT_TRUE(ParseCreateVolume(Create({Block()}))->block_only);
  EXPECT_FALSE(ParseCreateVolume(Create({Block(), Mount()}))->block_only);
  EXPECT_FALSE(ParseCreateVolume(Create({Mount()}))->block_only);
  csi::v1::CreateVolumeRequest request = Create({Block()});
  (*request.mutable_parameters())["allowVolumeModeConversion"] = "true";
  EXPECT_FALSE(ParseCreateVolume(request)->block_only);
  (*request.mutable_parameters())["allowVolumeModeConversion"] = "false";
  EXPECT_TRUE(ParseCreateVolume(request)->block_only);
  (*request.mutable_parameters())["allowVolumeModeConversion"] = "";
  ExpectInvalid(ParseCreateVolume(request), "allowVolumeModeConversion");
}

TEST(ParseCreateVolumeTest, TheMinimumIsThatOfTheMostDemandingCapability) {
  EXPECT_EQ(ParseCreateVolume(Create({Block()}))->minimum_bytes, kMiB);
  EXPECT_EQ(ParseCreateVolume(Create({Block(), Mount("xfs")}))->minimum_bytes, 300 * kMiB);
  EXPECT_EQ(ParseCreateVolume(Create({Block(), Mount("btrfs")}))->minimum_bytes, 109 * kMiB);
  EXPECT_EQ(ParseCreateVolume(Create({Block(), Mount()}))->minimum_bytes, 16 * kMiB);
}

TEST(ParseCreateVolumeTest, RequisiteTopologiesCountAndPreferredOnesWhereThereAreNoOthers) {
  csi::v1::CreateVolumeRequest request = Create();
  request.mutable_accessibility_requirements();  // empty but present, as Nomad sends it
  EXPECT_THAT(ParseCreateVolume(request)->topologies, IsEmpty());
  *request.mutable_accessibility_requirements()->add_preferred() = Topology("zone", "b");
  EXPECT_THAT(ParseCreateVolume(request)->topologies, ElementsAre(UnorderedElementsAre(Pair("zone", "b"))));
  *request.mutable_accessibility_requirements()->add_requisite() = Topology("zone", "a");
  EXPECT_THAT(ParseCreateVolume(request)->topologies, ElementsAre(UnorderedElementsAre(Pair("zone", "a"))));
}

TEST(ParseControllerPublishTest, ChecksItsArguments) {
  csi::v1::ControllerPublishVolumeRequest request;
  ExpectInvalid(ParseControllerPublish(request, "ext4"), "volume_id is missing");
  request.set_volume_id("../any text is an unknown id");
  ExpectInvalid(ParseControllerPublish(request, "ext4"), "node_id is missing");
  request.set_node_id("n1");
  ExpectInvalid(ParseControllerPublish(request, "ext4"), "volume_capability is missing");
  *request.mutable_volume_capability() = Mount("ntfs");
  ExpectInvalid(ParseControllerPublish(request, "ext4"), "fs_type");
  *request.mutable_volume_capability() = Mount();
  request.set_readonly(true);
  const absl::StatusOr<ControllerPublishSpec> spec = ParseControllerPublish(request, "ext4");
  ASSERT_OK(spec);
  EXPECT_EQ(spec->volume_id, "../any text is an unknown id");
  EXPECT_EQ(spec->node_id, "n1");
  EXPECT_TRUE(spec->read_only);
  request.mutable_volume_capability()->mutable_mount()->add_mount_flags("inode64");
  EXPECT_FALSE(ParseControllerPublish(request, "ext4").ok());
  EXPECT_OK(ParseControllerPublish(request, "xfs"));
}

TEST(ParseControllerUnpublishTest, NeedsTheVolumeOnly) {
  csi::v1::ControllerUnpublishVolumeRequest request;
  ExpectInvalid(ParseControllerUnpublish(request), "volume_id is missing");
  request.set_volume_id("v");
  EXPECT_EQ(ParseControllerUnpublish(request)->node_id, "");
}

TEST(RequiredTest, OnlyAnEmptyIdIsInvalid) {
  ExpectInvalid(Required("volume_id", ""), "volume_id is missing");
  EXPECT_EQ(*Required("volume_id", "/../\n"), "/../\n");
}

TEST(ParseControllerExpandTest, ChecksItsArguments) {
  csi::v1::ControllerExpandVolumeRequest request;
  ExpectInvalid(ParseControllerExpand(request), "volume_id is missing");
  request.set_volume_id("v");
  ExpectInvalid(ParseControllerExpand(request), "capacity_range is missing");
  request.mutable_capacity_range();
  ExpectInvalid(ParseControllerExpand(request), "capacity_range is empty");
  request.mutable_capacity_range()->set_required_bytes(-5);
  ExpectInvalid(ParseControllerExpand(request), "negative");
  request.mutable_capacity_range()->set_required_bytes(5);
  EXPECT_EQ(ParseControllerExpand(request)->range.required, 5u);
}

TEST(ParseListVolumesTest, TakesItsOwnTokensOnly) {
  csi::v1::ListVolumesRequest request;
  EXPECT_EQ(ParseListVolumes(request)->after, 0);
  EXPECT_EQ(ParseListVolumes(request)->max_entries, 0u);
  request.set_max_entries(-1);
  ExpectInvalid(ParseListVolumes(request), "max_entries");
  request.set_max_entries(3);
  request.set_starting_token(ListToken(kListVolumes, 17));
  EXPECT_EQ(ParseListVolumes(request)->after, 17);
  EXPECT_EQ(ParseListVolumes(request)->max_entries, 3u);
  for (const std::string& token :
       {std::string("0"), std::string("1"), std::string("4294967295"), std::string("invalid-token"),
        std::string("after-"), std::string("after-0"), std::string("after--1"), std::string("after-+1"),
        std::string("after-01"), std::string("after-1 "), std::string("after-9223372036854775808"),
        std::string("After-1"), std::string("after-1a"), std::string("after-1\0", 8), std::string("after"),
        std::string("\n"), std::string(100'000, '9')}) {
    request.set_starting_token(token);
    EXPECT_TRUE(absl::IsAborted(ParseListVolumes(request).status())) << token.substr(0, 40);
  }
}

TEST(ParseGetCapacityTest, AnswersForPossibleVolumesOnly) {
  csi::v1::GetCapacityRequest request;
  EXPECT_TRUE(ParseGetCapacity(request).possible);
  EXPECT_EQ(ParseGetCapacity(request).minimum_bytes, 16 * kMiB);
  *request.add_volume_capabilities() = Block();
  EXPECT_EQ(ParseGetCapacity(request).minimum_bytes, kMiB);
  *request.add_volume_capabilities() = Mount();
  (*request.mutable_parameters())["fsType"] = "xfs";
  EXPECT_EQ(ParseGetCapacity(request).minimum_bytes, 300 * kMiB);
  *request.mutable_accessible_topology() = Topology("zone", "a");
  EXPECT_THAT(ParseGetCapacity(request).topology, UnorderedElementsAre(Pair("zone", "a")));
  for (const auto& [key, value] : {std::pair("fsType", "zfs"), std::pair("colour", "blue")}) {
    csi::v1::GetCapacityRequest other;
    (*other.mutable_parameters())[key] = value;
    EXPECT_FALSE(ParseGetCapacity(other).possible);
  }
}

TEST(CreateVolumeTest, AcceptsEveryWordForPropagation) {
  csi::v1::CreateVolumeRequest request = Create();
  EXPECT_EQ(ParseCreateVolume(request)->propagation, std::nullopt);
  (*request.mutable_parameters())["propagation"] = "HostToContainer";
  EXPECT_EQ(ParseCreateVolume(request)->propagation, Propagation::kSlave);
  (*request.mutable_parameters())["propagation"] = "";
  EXPECT_EQ(ParseCreateVolume(request)->propagation, std::nullopt);
  ExpectCreateInvalid([](auto& r) { (*r.mutable_parameters())["propagation"] = "both"; },
                      "parameter propagation: propagation 'both' is unknown: it is one of inherit, private");
}

TEST(CreateVolumeTest, IdsAreMappedForTasksThatMount) {
  csi::v1::CreateVolumeRequest request = Create();
  EXPECT_EQ(ParseCreateVolume(request)->idmap, "");
  (*request.mutable_parameters())["idmap"] = "u:0:100000:65536 g:0:200000:65536";
  EXPECT_EQ(ParseCreateVolume(request)->idmap, "u:0:100000:65536 g:0:200000:65536");
  ExpectCreateInvalid([](auto& r) { (*r.mutable_parameters())["idmap"] = "b:0:1000:1"; },
                      "parameter: idmap 'b:0:1000:1': the ids in the mount are those of a user namespace, from 65536");
  *request.mutable_volume_capabilities(0) = Block();
  ExpectInvalid(ParseCreateVolume(request), "parameter idmap: only block access is asked for");
}

TEST(CreateVolumeTest, SharingNeedsWriteAccess) {
  csi::v1::CreateVolumeRequest request = Create();
  (*request.mutable_parameters())["propagation"] = "rshared";
  EXPECT_OK(ParseCreateVolume(request));
  request.add_volume_capabilities()->CopyFrom(Mount());
  request.mutable_volume_capabilities(1)->mutable_access_mode()->set_mode(CsiMode::MULTI_NODE_READER_ONLY);
  ExpectInvalid(ParseCreateVolume(request), "rshared needs write access, and access mode MULTI_NODE_READER_ONLY");
  *request.mutable_volume_capabilities(1) = Mount();
  request.mutable_volume_capabilities(1)->mutable_mount()->add_mount_flags("ro");
  ExpectInvalid(ParseCreateVolume(request), "rshared needs write access, and mount flag ro");
  (*request.mutable_parameters())["propagation"] = "rslave";
  EXPECT_OK(ParseCreateVolume(request));
}

class ValidateTest : public ::testing::Test {
 protected:
  ValidateTest() {
    request_.set_volume_id("v");
    *request_.add_volume_capabilities() = Mount();
  }
  std::string WhyNot() const {
    VolumeInfo volume;
    volume.id = "v";
    volume.bytes = bytes_;
    volume.fs_type = "xfs";
    return Message(CheckConfirmed(volume, request_));
  }

  std::uint64_t bytes_ = 300 * kMiB;
  csi::v1::ValidateVolumeCapabilitiesRequest request_;
};

TEST_F(ValidateTest, AVolumeThatIsTooSmallForAFilesystemIsStillABlockDevice) {
  bytes_ -= 4096;
  EXPECT_THAT(WhyNot(), HasSubstr("at least 300 MiB"));
  *request_.mutable_volume_capabilities(0) = Block();
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(ValidateTest, ArgumentsAreChecked) {
  EXPECT_OK(ParseValidate(request_));
  request_.mutable_volume_capabilities(0)->clear_access_mode();
  ExpectInvalid(ParseValidate(request_), "access_mode");
  *request_.mutable_volume_capabilities(0) = Mount();
  request_.mutable_volume_capabilities(0)->clear_access_type();
  ExpectInvalid(ParseValidate(request_), "access_type");
  request_.clear_volume_capabilities();
  ExpectInvalid(ParseValidate(request_), "volume_capabilities is missing");
  request_.clear_volume_id();
  ExpectInvalid(ParseValidate(request_), "volume_id is missing");
}

TEST_F(ValidateTest, ConfirmsCapabilitiesThatFitTheVolume) {
  EXPECT_EQ(WhyNot(), "");
  *request_.add_volume_capabilities() = Block();
  *request_.add_volume_capabilities() = Mount("xfs");
  request_.mutable_volume_capabilities(2)->mutable_access_mode()->set_mode(CsiMode::MULTI_NODE_MULTI_WRITER);
  request_.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags("inode64");
  (*request_.mutable_parameters())["fsType"] = "xfs";
  (*request_.mutable_volume_context())["fsType"] = "xfs";
  (*request_.mutable_volume_context())["storage.kubernetes.io/csiProvisionerIdentity"] = "x";
  EXPECT_EQ(WhyNot(), "");
}

TEST_F(ValidateTest, AMismatchIsAMessageNotAnError) {
  const auto expect = [this](const std::function<void()>& change, const std::string& text) {
    const auto before = request_;
    change();
    EXPECT_OK(ParseValidate(request_));
    EXPECT_THAT(WhyNot(), HasSubstr(text));
    request_ = before;
  };
  expect([this] { *request_.add_volume_capabilities() = Mount("ext4"); }, "volume was made for xfs");
  expect([this] { *request_.add_volume_capabilities() = Mount("ntfs"); }, "ntfs");
  expect([this] { request_.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags("bind"); }, "bind");
  expect([this] { (*request_.mutable_parameters())["fsType"] = "ext4"; }, "volume was made for xfs");
  expect([this] { (*request_.mutable_parameters())["propagation"] = "rslave"; },
         "propagation rslave is asked for, and the volume was made with none");
  expect([this] { (*request_.mutable_parameters())["idmap"] = "b:0:100000:65536"; }, "the volume was made with ''");
  expect([this] { (*request_.mutable_volume_context())["propagation"] = "both"; }, "'both' is unknown");
  expect([this] { (*request_.mutable_parameters())["colour"] = "blue"; }, "colour");
  expect([this] { (*request_.mutable_volume_context())["fsType"] = "ext4"; }, "volume was made for xfs");
  expect([this] { (*request_.mutable_mutable_parameters())["iops"] = "1"; }, "mutable parameter 'iops'");
  expect(
      [this] {
        request_.mutable_volume_capabilities(0)->mutable_access_mode()->set_mode(static_cast<CsiMode::Mode>(42));
      },
      "access_mode");
}

TEST(ExportWordsTest, TheWordsOfCsiDriverNfsAreUnderstoodOrRefusedWithAnotherWord) {
  std::vector<Pool> made;
  made.push_back({.name = "default"});
  made.push_back({.name = "share", .kind = BackendKind::kNfs, .tag = "0a1b2c3d", .source = "nas:/srv"});
  made.push_back({.name = "six", .kind = BackendKind::kNfs, .tag = "0a1b2c3e", .source = "[fd00::1]:/srv"});
  const Pools pools(std::move(made));
  const auto parse = [&](const std::vector<std::pair<std::string, std::string>>& parameters) {
    csi::v1::CreateVolumeRequest request = Create();
    for (const auto& [key, value] : parameters) (*request.mutable_parameters())[key] = value;
    return ParseCreateVolume(request, pools, {});
  };
  const auto spec =
      parse({{"server", "nas"}, {"share", "/srv/"}, {"onDelete", "delete"}, {"mountPermissions", "0770"}});
  ASSERT_OK(spec);
  EXPECT_EQ(spec->pool, "share");
  EXPECT_EQ(spec->making.root.mode, 0770);
  EXPECT_EQ(parse({{"pool", "share"}, {"mountPermissions", "0"}})->making, VolumeMaking());
  EXPECT_EQ(parse({{"server", "NAS"}, {"share", "/srv"}})->pool, "share");
  EXPECT_EQ(parse({{"server", "fd00::1"}, {"share", "/srv"}})->pool, "six");
  ExpectInvalid(parse({{"server", "nas"}, {"share", "/SRV"}}), "no pool of this plugin");
  ExpectInvalid(parse({{"pool", "share"}, {"mode", "0750"}, {"mountPermissions", "0770"}}), "contradict each other");
  EXPECT_EQ(parse({{"pool", "share"}, {"mode", "0770"}, {"mountPermissions", "0770"}})->making.root.mode, 0770);
  ExpectInvalid(parse({{"server", "nas"}, {"share", "/other"}}), "export=/other, and ask for pool=NAME");
  ExpectInvalid(parse({{"pool", "default"}, {"server", "nas"}, {"share", "/srv"}}), "with the name 'default'");
  EXPECT_EQ(parse({{"pool", "share"}, {"subDir", "a"}})->sub_dir, "a");
  EXPECT_EQ(parse({{"pool", "share"}, {"subDir", ""}})->sub_dir, "");
  for (const std::string name :
       {"a/b", "../a", ".mooring", "..", "a b", "a=b", "a\n", "vol-0a1b2c3d-0123456789abcdef01234567",
        "vol-0123456789abcdef0123456789abcdef.deleting", "snap-0a1b2c3d-0123456789abcdef01234567", "retained-a",
        "archived-a"}) {
    ExpectInvalid(parse({{"pool", "share"}, {"subDir", name}}), "it is a directory in the export itself");
  }
  ExpectInvalid(parse({{"pool", "share"}, {"subDir", std::string(129, 'a')}}), "at most 128 letters");
  EXPECT_EQ(parse({{"pool", "share"}, {"onDelete", "archive"}})->making.on_delete, OnDelete::kArchive);
  ExpectInvalid(parse({{"pool", "share"}, {"onDelete", "keep"}}), "it is delete, retain or archive");
  ExpectInvalid(parse({{"pool", "share"}, {"idmap", "b:0:100000:65536"}}), "the backend nfs, on which Linux maps no");
}

TEST(ExportWordsTest, ACopyLiesInThePoolOfTheExportThatItNames) {
  std::vector<Pool> made;
  made.push_back({.name = "default"});
  made.push_back({.name = "share", .kind = BackendKind::kNfs, .tag = "0a1b2c3d", .source = "nas:/srv"});
  const Pools pools(std::move(made));
  csi::v1::CreateVolumeRequest request = Create();
  request.mutable_volume_content_source()->mutable_volume()->set_volume_id("vol-0a1b2c3d-0123456789abcdef01234567");
  EXPECT_EQ(ParseCreateVolume(request, pools, {})->pool, "") << "that of its source";
  (*request.mutable_parameters())["server"] = "nas";
  (*request.mutable_parameters())["share"] = "/srv";
  EXPECT_EQ(ParseCreateVolume(request, pools, {})->pool, "share");
}

TEST(ExportWordsTest, ADirectoryMayBeNamedAsAnObjectOfKubernetes) {
  const auto resolve = [](const std::string& text, const std::map<std::string, std::string>& parameters) {
    return SubDirOf({.server = "", .share = "", .sub_dir = text}, parameters);
  };
  const std::map<std::string, std::string> given = {{"csi.storage.k8s.io/pvc/name", "data"},
                                                    {"csi.storage.k8s.io/pvc/namespace", "web"}};
  const std::string name = "${pvc.metadata.name}";
  EXPECT_EQ(*resolve("${pvc.metadata.namespace}_" + name + "_" + name, given), "web_data_data");
  ExpectInvalid(resolve(name, {}), "--extra-create-metadata");
  ExpectInvalid(resolve("${pv.metadata.name}", given), "--extra-create-metadata");
  ExpectInvalid(resolve(name, {{"csi.storage.k8s.io/pvc/name", name}}), "does not say");
  ExpectInvalid(resolve(name, {{"csi.storage.k8s.io/pvc/name", "../other"}}), "a directory in the export");
  ExpectInvalid(resolve("${unknown}", given), "a directory in the export");
}

// Kubernetes asks for the capacity of a storage class, and knows no claim then.
TEST(ExportWordsTest, ANameOfNoClaimYetDoesNotHideTheCapacity) {
  std::vector<Pool> made;
  made.push_back({.name = "share", .kind = BackendKind::kNfs, .tag = "0a1b2c3d", .source = "nas:/srv"});
  csi::v1::GetCapacityRequest request;
  (*request.mutable_parameters())["pool"] = "share";
  (*request.mutable_parameters())["subDir"] = "${pvc.metadata.name}";
  EXPECT_TRUE(ParseGetCapacity(request, Pools(std::move(made))).possible);
}

TEST(ExportWordsTest, OptionsOfThePoolMayBeRepeatedAsMountFlags) {
  std::vector<Pool> made;
  made.push_back({.name = "default"});
  made.push_back({.name = "share", .kind = BackendKind::kNfs, .tag = "0a1b2c3d", .options = {{"vers", "4.1"}}});
  const Pools pools(std::move(made));
  const auto parse = [&](const std::string& flag) {
    csi::v1::CreateVolumeRequest request = Create();
    (*request.mutable_parameters())["pool"] = "share";
    request.mutable_volume_capabilities(0)->mutable_mount()->add_mount_flags(flag);
    return ParseCreateVolume(request, pools, {});
  };
  EXPECT_OK(parse("nfsvers=4.1"));
  EXPECT_OK(parse("vers=4.1,noatime"));
  ExpectInvalid(parse("nfsvers=4.2"), "which is mounted with vers=4.1");
  ExpectInvalid(parse("rsize=65536"), "one of the whole pool share");
  ExpectInvalid(parse("nfsvers=3"), "not allowed");
}

}  // namespace
}  // namespace mooring::testing

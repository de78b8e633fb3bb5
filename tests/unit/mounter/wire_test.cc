// Every field of every struct in mounter/mounter.h arrives, and invalid values are refused. The lists of members below
// do not compile after a struct got another member.
#include "mounter/helper/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <array>
#include <tuple>

#include "tests/support/status_matchers.h"

namespace mooring {

// In this namespace, so that comparisons of std::optional find it.
static bool operator==(const LoopInfo& a, const LoopInfo& b) {
  const auto members = [](const LoopInfo& loop) {
    const auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12] = loop;
    return std::tie(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12);
  };
  return members(a) == members(b);
}

static bool operator==(const MountInfo& a, const MountInfo& b) {
  const auto members = [](const MountInfo& mount) {
    const auto& [m1, m2, m3, m4, m5, m6, m7, m8] = mount;
    return std::tie(m1, m2, m3, m4, m5, m6, m7, m8);
  };
  return members(a) == members(b);
}

static bool operator==(const ListedMount& a, const ListedMount& b) {
  return static_cast<const MountInfo&>(a) == static_cast<const MountInfo&>(b) && a.peer_group == b.peer_group &&
         a.master == b.master && a.ids_mapped == b.ids_mapped;
}

static bool operator==(const Usage& a, const Usage& b) {
  const auto members = [](const Usage& usage) {
    const auto& [m1, m2, m3] = usage;
    return std::tie(m1, m2, m3);
  };
  return members(a) == members(b);
}

namespace testing {
namespace {

using absl::StatusCode;

auto Members(const MountRequest& request) {
  const auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13] = request;
  return std::tie(m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13);
}
auto Members(const BindRequest& request) {
  const auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9] = request;
  return std::tie(m1, m2, m3, m4, m5, m6, m7, m8, m9);
}
auto Members(const UnmountRequest& request) {
  const auto& [m1, m2] = request;
  return std::tie(m1, m2);
}
auto Members(const AttachLoopRequest& request) {
  const auto& [m1, m2, m3] = request;
  return std::tie(m1, m2, m3);
}
auto Members(const NewSubvolume& subvolume) {
  const auto& [m1, m2, m3, m4] = subvolume;
  return std::tie(m1, m2, m3, m4);
}
auto Members(const NewLogicalVolume& volume) {
  const auto& [m1, m2, m3, m4, m5, m6, m7] = volume;
  return std::tie(m1, m2, m3, m4, m5, m6, m7);
}
auto Members(const LogicalVolume& volume) {
  const auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9] = volume;
  return std::tie(m1, m2, m3, m4, m5, m6, m7, m8, m9);
}
auto Members(const Needs& needs) {
  const auto& [m1, m2] = needs;
  return std::tie(m1, m2);
}
auto Members(const PathInfo& info) {
  const auto& [m1, m2, m3, m4, m5, m6, m7, m8] = info;
  return std::tie(m1, m2, m3, m4, m5, m6, m7, m8);
}
auto Members(const StatsInfo& info) {
  const auto& [m1, m2, m3] = info;
  return std::tie(m1, m2, m3);
}
auto Members(const FormatRequest& request) {
  const auto& [m1, m2, m3] = request;
  return std::tie(m1, m2, m3);
}
auto Members(const FilesystemInfo& info) {
  const auto& [m1, m2, m3, m4, m5, m6] = info;
  return std::tie(m1, m2, m3, m4, m5, m6);
}

auto Members(const ExpectedMount& expected) {
  const auto& [m1, m2, m3, m4, m5] = expected;
  return std::tuple(m1, m2, m3, m4, m5);
}
auto Members(const ConditionalBind& request) {
  const auto& [m1, m2, m3] = request;
  return std::tuple_cat(Members(m1), Members(m2), std::tie(m3));
}
auto Members(const ConditionalUnmount& request) {
  const auto& [m1, m2] = request;
  return std::tuple_cat(Members(m1), Members(m2));
}
auto Members(const ExamineRequest& request) {
  const auto& [m1, m2] = request;
  return std::tuple_cat(std::tie(m1), Members(m2));
}
auto Members(const Examination& seen) {
  const auto& [m1, m2, m3, m4] = seen;
  return std::tuple_cat(Members(m1), std::tie(m2, m4), Members(m3));
}

// Converts through the bytes of a message, as between two processes.
template <typename Message, typename Struct>
auto Sent(const Struct& value) {
  Message message, arrived;
  wire::To(value, message);
  EXPECT_TRUE(arrived.ParseFromString(message.SerializeAsString()));
  return wire::From(arrived);
}

template <typename Message, typename Struct>
void ExpectArrives(const Struct& value) {
  const auto arrived = Sent<Message>(value);
  ASSERT_OK(arrived);
  EXPECT_EQ(Members(*arrived), Members(value));
}

constexpr std::array kPropagations = {Propagation::kInherit, Propagation::kPrivate, Propagation::kSlave,
                                      Propagation::kShared};
// Sets one flag at a time, so that two exchanged flags are noticed.
std::vector<MountFlags> AllFlags() {
  std::vector<MountFlags> all(1);
  for (const MountFlagRow& row : MountFlagTable()) Set(all.emplace_back(), row);
  return all;
}

MountRequest AMount() {
  return {.source = "/volumes/a.img",
          .label = "mooring:a",
          .fs_type = "ext4",
          .target = "/target/with \xff and\nall",
          .flags = {.read_only = true},
          .options = {{"discard", std::nullopt}, {"commit", "30"}, {"empty", ""}},
          .propagation = Propagation::kSlave,
          .group = 77,
          .new_root = NewRoot{.uid = 1, .gid = 0, .mode = 02750},
          .idmap = "u:0:100000:1"};
}

BindRequest ABind() {
  return {.source = "/staged",
          .target = "/published",
          .target_kind = TargetKind::kFile,
          .flags = {.nosuid = true},
          .recursive = true,
          .propagation = Propagation::kShared,
          .group = 78,
          .new_root = NewRoot{},
          .idmap = "b:0:100000:65536"};
}

LoopInfo ALoop() {
  return {.device = "/dev/loop3",
          .device_number = 0x703,
          .backing_device = 0x801,
          .backing_inode = ~std::uint64_t{0},
          .backing_rdev = 0x702,
          .label = "mooring:a",
          .offset = 1,
          .size_limit = 2,
          .read_only = true,
          .auto_clear = false,
          .mounted = true,
          .raw = true};
}

MountInfo AMountInfo() {
  return {.id = std::uint64_t{1} << 40U,
          .target = "/target",
          .root = "/root",
          .fs_type = "xfs",
          .source = "mooring:vol-1",
          .device = 0x704,
          .flags = {.nodev = true},
          .superblock_read_only = true};
}

ListedMount AListedMount() { return {AMountInfo(), 5, 6, true}; }

TEST(WireTest, AMountRequestArrives) {
  ExpectArrives<pb::MountRequest>(MountRequest());
  ExpectArrives<pb::MountRequest>(AMount());
  for (const Propagation propagation : kPropagations) {
    MountRequest request = AMount();
    request.propagation = propagation;
    ExpectArrives<pb::MountRequest>(request);
  }
  for (const MountFlags& flags : AllFlags()) {
    MountRequest request = AMount();
    request.flags = flags;
    ExpectArrives<pb::MountRequest>(request);
  }
  MountRequest root = AMount();
  root.group = 0;  // is a group, and not the same as none
  ExpectArrives<pb::MountRequest>(root);
}

TEST(WireTest, WhatOnlyThePersonAtTheCommandLineMayAskForDoesNotArrive) {
  MountRequest mount = AMount();
  mount.by_hand = mount.may_run_program = true;
  mount.subdirectory = "a";
  const auto mount_arrived = Sent<pb::MountRequest>(mount);
  ASSERT_OK(mount_arrived);
  const MountRequest plain_mount = AMount();
  EXPECT_EQ(Members(*mount_arrived), Members(plain_mount));
}

TEST(WireTest, ABindRequestArrives) {
  ExpectArrives<pb::BindRequest>(BindRequest());
  ExpectArrives<pb::BindRequest>(ABind());
  for (const Propagation propagation : kPropagations) {
    for (const TargetKind kind : {TargetKind::kDirectory, TargetKind::kFile}) {
      BindRequest request = ABind();
      request.propagation = propagation;
      request.target_kind = kind;
      ExpectArrives<pb::BindRequest>(request);
    }
  }
  for (const MountFlags& flags : AllFlags()) {
    BindRequest request = ABind();
    request.flags = flags;
    ExpectArrives<pb::BindRequest>(request);
  }
}

TEST(WireTest, TheOtherRequestsArrive) {
  ExpectArrives<pb::UnmountRequest>(UnmountRequest());
  ExpectArrives<pb::UnmountRequest>(UnmountRequest{"/target", true});
  ExpectArrives<pb::AttachLoopRequest>(AttachLoopRequest());
  ExpectArrives<pb::AttachLoopRequest>(AttachLoopRequest{"/volumes/a.img", "mooring:a", true});
  ExpectArrives<pb::NeedsRequest>(Needs());
  ExpectArrives<pb::NeedsRequest>(Needs{true, {"/csi", "/srv"}});
}

TEST(WireTest, TooManyNeedsAndTextsWithNulAreRefused) {
  EXPECT_THAT(Sent<pb::NeedsRequest>(Needs{false, std::vector<std::string>(wire::kMostOptions + 1, "/csi")}),
              FailsWith(StatusCode::kInvalidArgument, "65 directories"));
  EXPECT_THAT(Sent<pb::NeedsRequest>(Needs{false, {std::string("/c\0si", 5)}}),
              FailsWith(StatusCode::kInvalidArgument, "NUL"));
}

TEST(WireTest, NewSubvolumesArrive) {
  const std::vector<NewSubvolume> wanted = {{.path = "/pool/a", .source = "/pool/b", .bytes = 1ULL << 40U},
                                            {.path = "/pool/c", .read_only = true}};
  const auto arrived = Sent<pb::MakeSubvolumesRequest>(wanted);
  ASSERT_OK(arrived);
  ASSERT_EQ(arrived->size(), 2U);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(Members((*arrived)[i]), Members(wanted[i]));
  EXPECT_THAT(Sent<pb::MakeSubvolumesRequest>(std::vector<NewSubvolume>(wire::kMostCopies + 1)),
              FailsWith(StatusCode::kInvalidArgument, "257 subvolumes"));
  EXPECT_THAT(Sent<pb::MakeSubvolumesRequest>(std::vector<NewSubvolume>{{.path = std::string("/c\0si", 5)}}),
              FailsWith(StatusCode::kInvalidArgument, "NUL"));
}

TEST(WireTest, LogicalVolumesArrive) {
  const NewLogicalVolume wanted = {.pool = "fast/thin",
                                   .name = "snap-1",
                                   .bytes = 1ULL << 40U,
                                   .clear = true,
                                   .source = "vol-1",
                                   .is_snapshot = true,
                                   .renew_fs_type = "xfs"};
  const auto arrived = Sent<pb::NewLogicalVolume>(wanted);
  ASSERT_OK(arrived);
  EXPECT_EQ(Members(*arrived), Members(wanted));
  EXPECT_THAT(Sent<pb::NewLogicalVolume>(NewLogicalVolume{.pool = {}, .name = std::string("v\0l", 3)}),
              FailsWith(StatusCode::kInvalidArgument, "NUL"));

  const LvmReport report = {
      .bytes = 1ULL << 40U,
      .free_bytes = 3,
      .extent_bytes = 4,
      .data_percent = 12.5,
      .metadata_percent = 7.25,
      .zeroes = true,
      .problem = "full",
      .volumes = {{.name = "vol-1", .bytes = 5, .is_new = true, .is_active = true},
                  {.name = "vol-2", .bytes = 6, .is_cleared = true, .is_open = true, .is_raw = true},
                  {.name = "vol-3", .is_growing = true},
                  {.name = "vol-4", .is_enlarged = true}}};
  const auto reported = Sent<pb::LvmReport>(report);
  ASSERT_OK(reported);
  EXPECT_EQ(std::tie(reported->bytes, reported->free_bytes, reported->extent_bytes),
            std::tie(report.bytes, report.free_bytes, report.extent_bytes));
  EXPECT_EQ(std::tie(reported->data_percent, reported->metadata_percent, reported->zeroes, reported->problem),
            std::tie(report.data_percent, report.metadata_percent, report.zeroes, report.problem));
  ASSERT_EQ(reported->volumes.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(Members(reported->volumes[i]), Members(report.volumes[i]));
}

TEST(WireTest, EncryptedVolumesArrive) {
  const NewEncryptedVolume wanted = {.volume = {.carrier = "/srv/secret/vol-1.img", .id = "vol-1"},
                                     .passphrase = std::string("bytes\0\xff", 7),
                                     .label = "mooring:vol-1",
                                     .source = "snap-1",
                                     .renew_fs_type = "xfs"};
  const auto made = Sent<pb::NewEncryptedVolume>(wanted);
  ASSERT_OK(made);
  EXPECT_EQ(
      std::tie(made->volume.carrier, made->volume.id, made->passphrase, made->label, made->source, made->renew_fs_type),
      std::tie(wanted.volume.carrier, wanted.volume.id, wanted.passphrase, wanted.label, wanted.source,
               wanted.renew_fs_type));

  const OpenRequest request = {.volume = wanted.volume, .passphrase = wanted.passphrase, .label = "mooring:vol-1"};
  const auto opened = Sent<pb::OpenRequest>(request);
  ASSERT_OK(opened);
  EXPECT_EQ(std::tie(opened->volume.carrier, opened->volume.id, opened->passphrase, opened->label),
            std::tie(request.volume.carrier, request.volume.id, request.passphrase, request.label));
  OpenRequest too_long = request;
  too_long.passphrase = std::string(kLongestPassphrase + 1, 'x');
  EXPECT_THAT(Sent<pb::OpenRequest>(too_long), FailsWith(StatusCode::kInvalidArgument, "513 bytes"));

  for (const EncryptedState state : {EncryptedState{.is_finished = true}, EncryptedState{.is_raw = true}}) {
    const auto told = Sent<pb::EncryptedState>(state);
    ASSERT_OK(told);
    EXPECT_EQ(std::tie(told->is_finished, told->is_raw), std::tie(state.is_finished, state.is_raw));
  }
}

TEST(WireTest, ALoopDeviceArrives) {
  EXPECT_EQ(*Sent<pb::LoopInfo>(LoopInfo()), LoopInfo());
  EXPECT_EQ(*Sent<pb::LoopInfo>(ALoop()), ALoop());
  LoopInfo going = ALoop();
  going.read_only = going.mounted = false;
  going.auto_clear = true;
  EXPECT_EQ(*Sent<pb::LoopInfo>(going), going);
  const std::vector<LoopInfo> loops = {going, ALoop(), LoopInfo()};
  EXPECT_EQ(*Sent<pb::LoopInfos>(loops), loops);
}

TEST(WireTest, MountsArriveInTheirOrder) {
  std::vector<ListedMount> mounts = {AListedMount(), ListedMount()};
  for (const MountFlags& flags : AllFlags()) {
    mounts.push_back(AListedMount());
    mounts.back().flags = flags;
  }
  EXPECT_EQ(*Sent<pb::MountInfos>(mounts), mounts);
  EXPECT_EQ(*Sent<pb::MountInfos>(std::vector<ListedMount>()), std::vector<ListedMount>());
}

TEST(WireTest, APathInfoArrives) {
  using Kind = PathInfo::Kind;
  ExpectArrives<pb::PathInfo>(PathInfo());
  for (const Kind kind :
       {Kind::kMissing, Kind::kDirectory, Kind::kRegular, Kind::kBlockDevice, Kind::kSymlink, Kind::kOther}) {
    PathInfo info = {.kind = kind,
                     .empty = false,
                     .device = 0x705,
                     .inode = 0x100000001,
                     .inode_device = 0x100000003,
                     .mount = {},
                     .loop = {},
                     .failure = "it is dead"};
    ExpectArrives<pb::PathInfo>(info);
    info.mount = AMountInfo();
    ExpectArrives<pb::PathInfo>(info);
    info.loop = ALoop();
    ExpectArrives<pb::PathInfo>(info);
  }
}

TEST(WireTest, ConditionalCallsArrive) {
  const ExpectedMount expected = {"mooring:a", "vol-a", 0x100000002, 0x100000004, 0x706};
  ExpectArrives<pb::ConditionalBind>(ConditionalBind());
  ExpectArrives<pb::ConditionalBind>(ConditionalBind{ABind(), expected, "xfs"});
  ExpectArrives<pb::ConditionalUnmount>(ConditionalUnmount());
  ExpectArrives<pb::ConditionalUnmount>(ConditionalUnmount{{"/target", true}, expected});
  PathInfo found;
  found.kind = PathInfo::Kind::kDirectory;
  found.device = 0x705;
  found.mount = AMountInfo();
  for (const bool done : {false, true}) EXPECT_EQ(*Sent<pb::ConditionalOutcome>(done), done);
  ExpectArrives<pb::ExamineRequest>(ExamineRequest{"/path", expected});
  ExpectArrives<pb::Examination>(Examination());
  ExpectArrives<pb::Examination>(Examination{found, true, {{1, 2, 3}, {4, 5, 6}, 7}, "it is full"});
}

TEST(WireTest, FormatRequestArrives) {
  ExpectArrives<pb::FormatRequest>(FormatRequest{"/volumes/a.img", "xfs", {512, 8192, 25}});
  pb::FormatRequest message;
  message.set_fs_type(std::string(wire::kMostText + 1, 'x'));
  EXPECT_THAT(wire::From(message), FailsWith(StatusCode::kInvalidArgument, ""));
}

TEST(WireTest, StatsArrive) {
  ExpectArrives<pb::StatsInfo>(StatsInfo{{1, 2, 3}, {4, 5, ~std::uint64_t{0}}, 6});
  using Content = FilesystemInfo::Content;
  for (const Content content : {Content::kEmpty, Content::kFilesystem, Content::kForeign}) {
    ExpectArrives<pb::FilesystemInfo>(FilesystemInfo{content, "ext4", 7, 8, true, true});
  }
}

// Otherwise it would be formatted.
TEST(WireTest, UnknownContentIsNotEmpty) {
  pb::FilesystemInfo message;
  EXPECT_EQ(wire::From(message)->content, FilesystemInfo::Content::kForeign);
  message.set_content(static_cast<pb::FilesystemInfo::Content>(99));
  EXPECT_EQ(wire::From(message)->content, FilesystemInfo::Content::kForeign);
}

TEST(WireTest, UnknownEnumValuesAreRefused) {
  for (const int value : {-1, 4, 99, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    pb::MountRequest mount;
    mount.set_propagation(static_cast<pb::Propagation>(value));
    EXPECT_THAT(wire::From(mount), FailsWith(StatusCode::kInvalidArgument, "propagation"));
    pb::BindRequest bind;
    bind.set_propagation(static_cast<pb::Propagation>(value));
    EXPECT_THAT(wire::From(bind), FailsWith(StatusCode::kInvalidArgument, "propagation"));
    bind.clear_propagation();
    bind.set_target_kind(static_cast<pb::TargetKind>(value));
    EXPECT_THAT(wire::From(bind), FailsWith(StatusCode::kInvalidArgument, "target kind"));
  }
  pb::PathInfo path;
  path.set_kind(static_cast<pb::PathInfo::Kind>(6));
  EXPECT_THAT(wire::From(path), FailsWith(StatusCode::kInvalidArgument, "path kind"));
}

TEST(WireTest, UnknownMountAttributesAreRefused) {
  pb::BindRequest bind;
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t attribute = std::uint64_t{1} << bit;
    if ((KnownAttributes() & attribute) != 0) continue;
    bind.mutable_flags()->set_attributes(attribute);
    EXPECT_THAT(wire::From(bind), FailsWith(StatusCode::kInvalidArgument, "mount attributes")) << bit;
  }
  bind.mutable_flags()->set_attributes(MOUNT_ATTR_NOATIME | MOUNT_ATTR_STRICTATIME);
  EXPECT_THAT(wire::From(bind), FailsWith(StatusCode::kInvalidArgument, "unknown mount attributes 0x30"));
}

TEST(WireTest, TooManyOptionsAreRefused) {
  pb::MountRequest message;
  for (int i = 0; i < wire::kMostOptions; ++i) message.add_options()->set_key("k");
  EXPECT_EQ(wire::From(message)->options.size(), 64U);
  message.add_options()->set_key("k");
  EXPECT_THAT(wire::From(message), FailsWith(StatusCode::kInvalidArgument, "65 options"));
}

TEST(WireTest, ErrorsArriveWithCodeAndMessage) {
  for (int code = 1; code <= static_cast<int>(StatusCode::kUnauthenticated); ++code) {
    pb::Answer answer;
    wire::To(absl::Status(static_cast<StatusCode>(code), "it \xff failed"), answer);
    EXPECT_THAT(wire::StatusOf(answer), FailsWith(static_cast<StatusCode>(code), "it \xff failed"));
  }
  EXPECT_OK(wire::StatusOf(pb::Answer()));
}

}  // namespace
}  // namespace testing
}  // namespace mooring

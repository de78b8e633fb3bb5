// Allocated and changed blocks of snapshots, checked by a comparison of all bytes of their images.
#include "tests/rpc/support/rpc_test.h"
#include "tests/support/block_patterns.h"

namespace mooring::testing {
namespace {

using Ranges = std::vector<ByteRange>;

class SnapshotMetadataRpc : public RpcTest {
 protected:
  std::shared_ptr<grpc::Channel> Channel() const {
    return grpc::CreateChannel("unix://" + (dir() / "csi.sock"), grpc::InsecureChannelCredentials());
  }

  struct Stream {
    grpc::Status status;
    Ranges ranges;
    std::vector<int> sizes;  // the number of ranges in each message
    std::set<std::int64_t> capacities;
  };
  template <typename Response, typename Reader>
  static Stream Collect(Reader reader) {
    Stream stream;
    for (Response piece; reader->Read(&piece);) {
      EXPECT_EQ(piece.block_metadata_type(), csi::v1::VARIABLE_LENGTH);
      stream.capacities.insert(piece.volume_capacity_bytes());
      stream.sizes.push_back(piece.block_metadata_size());
      for (const auto& block : piece.block_metadata()) {
        const auto begin = static_cast<std::uint64_t>(block.byte_offset());
        stream.ranges.push_back({begin, begin + static_cast<std::uint64_t>(block.size_bytes())});
      }
    }
    stream.status = reader->Finish();
    return stream;
  }
  Stream Allocated(const std::string& id, std::int64_t offset = 0, int most = 0) {
    csi::v1::GetMetadataAllocatedRequest request;
    request.set_snapshot_id(id);
    request.set_starting_offset(offset);
    request.set_max_results(most);
    grpc::ClientContext context;
    const auto stub = csi::v1::SnapshotMetadata::NewStub(Channel());
    return Collect<csi::v1::GetMetadataAllocatedResponse>(stub->GetMetadataAllocated(&context, request));
  }
  Stream Delta(const std::string& base, const std::string& target, std::int64_t offset = 0, int most = 0) {
    csi::v1::GetMetadataDeltaRequest request;
    request.set_base_snapshot_id(base);
    request.set_target_snapshot_id(target);
    request.set_starting_offset(offset);
    request.set_max_results(most);
    grpc::ClientContext context;
    const auto stub = csi::v1::SnapshotMetadata::NewStub(Channel());
    return Collect<csi::v1::GetMetadataDeltaResponse>(stub->GetMetadataDelta(&context, request));
  }
  static void ExpectFailure(const Stream& stream, grpc::StatusCode code, const std::string& text) {
    EXPECT_EQ(stream.status.error_code(), code) << stream.status.error_message();
    EXPECT_THAT(stream.status.error_message(), HasSubstr(text));
    EXPECT_THAT(stream.ranges, IsEmpty());
  }

  void ExpectTrue(const std::string& base, const std::string& target) {
    const std::string bytes = Bytes(Image(target));
    EXPECT_EQ(Delta(base, target).ranges, ChangedByBytes(Bytes(Image(base)), bytes));
    const Ranges holes = Holes(Allocated(target).ranges, static_cast<std::uint64_t>(kVolumeBytes));
    for (const ByteRange& hole : holes) EXPECT_TRUE(IsZero(bytes, hole)) << hole.begin;
  }

  void ExpectDeltasOfChanges() {
    const std::string volume = Created(Block());
    for (unsigned seed = 0; seed < 4; ++seed) {
      WriteAtRandom(Image(volume), static_cast<std::uint64_t>(kVolumeBytes), seed);
      const std::string base = Snapped("base " + std::to_string(seed), volume);
      ChangeAtRandom(Image(volume), static_cast<std::uint64_t>(kVolumeBytes), seed);
      ExpectTrue(base, Snapped("target " + std::to_string(seed), volume));
    }
  }

  // Puts the volumes on a filesystem that shares extents.
  void VolumesOnXfs() {
    const std::string image = pool_ / "pool.img", volumes = state_dir() + "/volumes";
    ASSERT_EQ(Shell("mkdir -p " + volumes + " && truncate -s 1G " + image + " && mkfs.xfs -q " + image +
                    " && mount -o loop " + image + " " + volumes),
              0);
    AllowMount(state_dir() + "/volumes");
  }

 private:
  const TempDir pool_;  // outside of the test's directory, so that its loop device is not counted
};

TEST_F(SnapshotMetadataRpc, DeltaMatchesAComparisonOfAllBytes) { ExpectDeltasOfChanges(); }

TEST_F(SnapshotMetadataRpc, DeltaMatchesWithSharedExtents) {
  VolumesOnXfs();
  ExpectDeltasOfChanges();
}

TEST_F(SnapshotMetadataRpc, StreamHasPiecesAndBeginsAtTheOffset) {
  const std::string volume = Created(Block());
  Ranges ranges;
  for (std::uint64_t block = 0; block < 10; ++block) ranges.push_back({2 * block * 4096, (2 * block + 1) * 4096});
  WriteImage(Image(volume), static_cast<std::uint64_t>(kVolumeBytes), ranges);
  const std::string snapshot = Snapped("s", volume);
  const Stream all = Allocated(snapshot);
  EXPECT_TRUE(all.status.ok());
  EXPECT_EQ(all.ranges, ranges);
  EXPECT_EQ(all.sizes, std::vector<int>{10});
  EXPECT_EQ(all.capacities, std::set<std::int64_t>{kVolumeBytes});
  EXPECT_EQ(Allocated(snapshot, 0, 4).sizes, (std::vector<int>{4, 4, 2}));
  EXPECT_EQ(Allocated(snapshot, 4 * 4096).ranges, Ranges(ranges.begin() + 2, ranges.end()));
  EXPECT_EQ(Allocated(snapshot, 16 * 4096 + 1).ranges, Ranges(ranges.begin() + 8, ranges.end()));
  const Stream none = Allocated(snapshot, kVolumeBytes);
  EXPECT_TRUE(none.status.ok());
  EXPECT_EQ(none.capacities, std::set<std::int64_t>{kVolumeBytes}) << "a message without ranges";
}

TEST_F(SnapshotMetadataRpc, InvalidRequestsAreRefused) {
  const std::string volume = Created(), other = Created();
  const std::string a = Snapped("a", volume), b = Snapped("b", volume), c = Snapped("c", other);
  ExpectFailure(Allocated(""), grpc::INVALID_ARGUMENT, "snapshot_id is missing");
  ExpectFailure(Allocated("x"), grpc::NOT_FOUND, "does not exist");
  ExpectFailure(Allocated(volume), grpc::NOT_FOUND, "does not exist");
  ExpectFailure(Allocated(a, -1), grpc::OUT_OF_RANGE, "starting_offset");
  ExpectFailure(Allocated(a, 0, -1), grpc::INVALID_ARGUMENT, "max_results");
  ExpectFailure(Allocated(a, kVolumeBytes + 1), grpc::OUT_OF_RANGE, "behind the end");
  ExpectFailure(Delta("", b), grpc::INVALID_ARGUMENT, "base_snapshot_id is missing");
  ExpectFailure(Delta(a, ""), grpc::INVALID_ARGUMENT, "target_snapshot_id is missing");
  ExpectFailure(Delta(a, "x"), grpc::NOT_FOUND, "does not exist");
  ExpectFailure(Delta("x", b), grpc::NOT_FOUND, "does not exist");
  ExpectFailure(Delta(a, c), grpc::INVALID_ARGUMENT, "different volumes");
  ExpectFailure(Delta(b, a), grpc::INVALID_ARGUMENT, "newer");
  ExpectFailure(Delta(a, b, kVolumeBytes + 1), grpc::OUT_OF_RANGE, "behind the end");
  EXPECT_TRUE(Delta(a, a).status.ok());
}

}  // namespace
}  // namespace mooring::testing

// A volume of a shared pool moves between two nodes under a writer, and loses no write that fsync confirmed.
#include <cstdlib>

#include "tests/rpc/calls/shared_pool_test.h"

namespace mooring::testing {
namespace {

constexpr std::size_t kBlock = 4096;
constexpr std::uint64_t kBlocks = 4096;  // of the file, which is written over and over

constexpr int kRefusals = 5;  // every fifth move deletes the records, and tries a second node

// MOORING_TEST_MOVES: how often the volume moves.
int Moves() {
  const char* const set = std::getenv("MOORING_TEST_MOVES");
  return set == nullptr ? 30 : std::atoi(set);
}

// Each block holds the number of the write. Writes one at least. Returns the number of the last one that fsync
// confirmed.
std::uint64_t WriteUntil(const std::string& path, std::uint64_t number, const std::atomic<bool>& stop) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  do {
    std::array<std::uint64_t, kBlock / sizeof(std::uint64_t)> block;
    block.fill(number + 1);
    const auto at = static_cast<off_t>((number + 1) % kBlocks * kBlock);
    if (::pwrite(file.get(), block.data(), kBlock, at) != kBlock || ::fsync(file.get()) != 0) break;
    ++number;
  } while (!stop);
  return number;
}

// The blocks that differ from what was confirmed up to `last`.
int LostBlocks(const std::string& path, std::uint64_t last) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  int lost = 0;
  for (std::uint64_t number = last > kBlocks ? last - kBlocks + 1 : 1; number <= last; ++number) {
    std::array<std::uint64_t, kBlock / sizeof(std::uint64_t)> block = {};
    const auto at = static_cast<off_t>(number % kBlocks * kBlock);
    const bool read = ::pread(file.get(), block.data(), kBlock, at) == kBlock;
    if (!read || std::any_of(block.begin(), block.end(), [&](std::uint64_t word) { return word != number; })) ++lost;
  }
  return lost;
}

TEST_F(SharedPool, MovesUnderAWriterWithoutLosingAConfirmedBlock) {
  const std::string id = Shared();
  const std::pair<Driver*, std::string> nodes[] = {{&driver(), kNode}, {&other(), kOtherNode}};
  std::uint64_t confirmed = 0;
  for (int move = 0; move < Moves(); ++move) {
    const auto& [node, node_id] = nodes[move % 2];
    const auto& [stranger, stranger_id] = nodes[(move + 1) % 2];
    const std::string target = Target(node_id), file = target + "/blocks";
    ASSERT_NO_FATAL_FAILURE(Use(*node, node_id, id, target));
    ASSERT_EQ(LostBlocks(file, confirmed), 0) << "after move " << move;
    std::atomic<bool> stop = false;
    std::thread writer([&] { confirmed = WriteUntil(file, confirmed, stop); });
    EXPECT_THAT(stranger->Attach(id, stranger_id), FailsWith(Code::kFailedPrecondition, node_id));
    if (move % kRefusals == 0) {  // each waits half a second for the device to go
      Rows(database(), "DELETE FROM publications");
      EXPECT_THAT(stranger->Attach(id, stranger_id), FailsWith(Code::kFailedPrecondition, "still attached"));
      EXPECT_THAT(stranger->Stage(id, StagingOn(stranger_id, id)), FailsWith(Code::kFailedPrecondition, id));
    }
    stop = true;
    writer.join();
    ASSERT_NO_FATAL_FAILURE(EndUse(*node, node_id, id, target));
  }
  EXPECT_GE(confirmed, static_cast<std::uint64_t>(Moves()));
  EXPECT_EQ(Shell("e2fsck -fn " + ImageOf(id) + " >/dev/null 2>&1"), 0);
}

}  // namespace
}  // namespace mooring::testing

// Images with random content, and a comparison of two of them byte by byte.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/file/unique_fd.h"
#include "plugin/backends/image/snapshot_blocks.h"

namespace mooring::testing {

inline void WriteRange(int fd, const ByteRange& range, char byte) {
  const std::string bytes(range.end - range.begin, byte);
  if (::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(range.begin)) < 0) std::abort();
}

// Makes a new sparse image with data in `ranges`.
inline void WriteImage(const std::string& path, std::uint64_t bytes, const std::vector<ByteRange>& ranges,
                       char byte = 'x') {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) std::abort();
  for (const ByteRange& range : ranges) WriteRange(fd.get(), range, byte);
}

inline ByteRange RandomRange(std::mt19937& random, std::uint64_t bytes) {
  const std::uint64_t begin = random() % bytes;
  return {begin, std::min(bytes, begin + 1 + random() % (random() % 4 == 0 ? 300'000 : 9'000))};
}

inline void WriteAtRandom(const std::string& path, std::uint64_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<ByteRange> ranges;
  for (unsigned i = 0; i < 30; ++i) ranges.push_back(RandomRange(random, bytes));
  WriteImage(path, bytes, ranges);
}

// Writes some ranges again, with the same or another byte, and punches out others.
inline void ChangeAtRandom(const std::string& path, std::uint64_t bytes, unsigned seed) {
  std::mt19937 random(seed + 1'000'000);
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  for (unsigned i = 0; i < 20; ++i) {
    const ByteRange range = RandomRange(random, bytes);
    const auto length = static_cast<off_t>(range.end - range.begin);
    const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (i % 3 != 0) {
      WriteRange(fd.get(), range, i % 2 == 0 ? 'x' : 'y');
    } else if (::fallocate(fd.get(), punch, static_cast<off_t>(range.begin), length) != 0) {
      WriteRange(fd.get(), range, '\0');
    }
  }
}

inline std::string Bytes(const std::string& path) {
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// The blocks of `target` that differ. Neighbours are joined.
inline std::vector<ByteRange> ChangedByBytes(std::string base, const std::string& target) {
  base.resize(target.size(), '\0');
  std::vector<ByteRange> changed;
  for (std::uint64_t at = 0; at < target.size(); at += kBlockBytes) {
    if (std::memcmp(base.data() + at, target.data() + at, kBlockBytes) == 0) continue;
    if (!changed.empty() && changed.back().end == at) {
      changed.back().end += kBlockBytes;
    } else {
      changed.push_back({at, at + kBlockBytes});
    }
  }
  return changed;
}

// The ranges between `ranges`.
inline std::vector<ByteRange> Holes(const std::vector<ByteRange>& ranges, std::uint64_t bytes) {
  std::vector<ByteRange> holes;
  std::uint64_t at = 0;
  for (const ByteRange& range : ranges) {
    if (at < range.begin) holes.push_back({at, range.begin});
    at = range.end;
  }
  if (at < bytes) holes.push_back({at, bytes});
  return holes;
}

inline bool IsZero(const std::string& bytes, const ByteRange& range) {
  return bytes[range.begin] == '\0' &&
         std::memcmp(bytes.data() + range.begin, bytes.data() + range.begin + 1, range.end - range.begin - 1) == 0;
}

}  // namespace mooring::testing

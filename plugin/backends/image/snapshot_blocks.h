// Finds the allocated blocks of an image, and the blocks in which it differs from another image. No process may write
// to the images any more.
//
// Blocks have kBlockBytes. They are reported in ascending order, and neighbours are joined. A block is allocated if the
// filesystem has data for it (SEEK_DATA). Extents that both images share (FS_IOC_FIEMAP) and holes are not read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

inline constexpr std::uint64_t kBlockBytes = 4096;

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // after the last byte

  bool operator==(const ByteRange&) const = default;
};

class SnapshotImage {
 public:
  static absl::StatusOr<SnapshotImage> Open(const std::string& path);

  std::uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

  // The first range of data at or after `from`; the part before `from` is cut off. An empty range at the end of the
  // file: there is none.
  absl::StatusOr<ByteRange> DataFrom(std::uint64_t from) const;

 private:
  SnapshotImage(std::string path, UniqueFd fd, std::uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  std::string path_;
  UniqueFd fd_;
  std::uint64_t bytes_;
};

// It is called once for each range. Its error ends the search.
using RangeSink = std::function<absl::Status(const ByteRange&)>;

// Starts with the block that contains `from`.
absl::Status FindAllocated(const SnapshotImage& image, std::uint64_t from, const RangeSink& sink);

// Finds the blocks of `target` that differ from `base`. A smaller `base` reads as zeros after its end.
absl::Status FindChanged(const SnapshotImage& base, const SnapshotImage& target, std::uint64_t from,
                         const RangeSink& sink);

}  // namespace mooring

// What of an image holds data, and what of it differs from another one. For images that nobody writes any more.
//
// Blocks of kBlockBytes, in ascending order, neighbours joined. A block holds data where the filesystem below has
// something for it (SEEK_DATA); it differs where a byte does. What two images share on that filesystem is not read
// (FS_IOC_FIEMAP: the same extent at the same place of both), nor what is a hole in both.
#ifndef MOORING_PLUGIN_BACKENDS_IMAGE_SNAPSHOT_BLOCKS_H_
#define MOORING_PLUGIN_BACKENDS_IMAGE_SNAPSHOT_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

inline constexpr std::uint64_t kBlockBytes = 4096;

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // behind the last byte

  bool operator==(const ByteRange&) const = default;
};

class SnapshotImage {
 public:
  static absl::StatusOr<SnapshotImage> Open(const std::string& path);

  std::uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

  // The first stretch of data that ends behind `from`, cut off in front of it; empty at the end of the file where there
  // is none.
  absl::StatusOr<ByteRange> DataFrom(std::uint64_t from) const;

 private:
  SnapshotImage(std::string path, UniqueFd fd, std::uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  std::string path_;
  UniqueFd fd_;
  std::uint64_t bytes_;
};

// Gets each range once; an error of its own ends the search.
using RangeSink = std::function<absl::Status(const ByteRange&)>;

// From the block that `from` lies in.
absl::Status FindAllocated(const SnapshotImage& image, std::uint64_t from, const RangeSink& sink);

// The blocks of `target` that are not as in `base`, which may be smaller: behind its end it is taken for zeros.
absl::Status FindChanged(const SnapshotImage& base, const SnapshotImage& target, std::uint64_t from,
                         const RangeSink& sink);

}  // namespace mooring

#endif  // MOORING_PLUGIN_BACKENDS_IMAGE_SNAPSHOT_BLOCKS_H_

#include "plugin/backends/image/snapshot_blocks.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/status.h"

namespace mooring {
namespace {

constexpr std::uint64_t kStretch = 64 << 20;    // compared at a time
constexpr std::size_t kReadBytes = 256 * 1024;  // of each image at a time
constexpr unsigned kExtents = 256;              // requested at a time

std::uint64_t BlockDown(std::uint64_t offset) { return offset - offset % kBlockBytes; }
std::uint64_t BlockUp(std::uint64_t offset) { return BlockDown(offset + kBlockBytes - 1); }

// Joins adjacent ranges, and passes complete ones to the sink.
class Joiner {
 public:
  explicit Joiner(const RangeSink& sink) : sink_(sink) {}

  absl::Status Add(const ByteRange& range) {
    if (open_ && range.begin <= open_->end) {
      open_->end = std::max(open_->end, range.end);
      return absl::OkStatus();
    }
    const absl::Status told = Finish();
    open_ = range;
    return told;
  }
  absl::Status Finish() { return open_ ? sink_(*std::exchange(open_, std::nullopt)) : absl::OkStatus(); }

 private:
  const RangeSink& sink_;
  std::optional<ByteRange> open_;
};

struct Extent {
  ByteRange at;
  std::uint64_t physical = 0;
};

// Other flags mean that the extent has no fixed place, or is stored in another form. Then it does not tell whether two
// images share it.
bool IsPlain(const fiemap_extent& extent) {
  constexpr std::uint32_t kTelling = FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_SHARED | FIEMAP_EXTENT_MERGED;
  return (extent.fe_flags & ~kTelling) == 0;
}

// A fiemap with its array of extents, for which C++ has no type.
class ExtentRequest {
 public:
  ExtentRequest() : memory_(sizeof(fiemap) + kExtents * sizeof(fiemap_extent)) {}

  // False: the filesystem does not support it.
  bool Ask(int fd, const ByteRange& range) {
    fiemap header = {};
    header.fm_start = range.begin;
    header.fm_length = range.end - range.begin;
    header.fm_flags = FIEMAP_FLAG_SYNC;
    header.fm_extent_count = kExtents;
    std::memcpy(memory_.data(), &header, sizeof(header));
    if (::ioctl(fd, FS_IOC_FIEMAP, memory_.data()) != 0) return false;
    std::memcpy(&header, memory_.data(), sizeof(header));
    count_ = header.fm_mapped_extents;
    return true;
  }
  unsigned count() const { return count_; }
  fiemap_extent operator[](unsigned index) const {
    fiemap_extent extent = {};
    std::memcpy(&extent, memory_.data() + sizeof(fiemap) + index * sizeof(extent), sizeof(extent));
    return extent;
  }

 private:
  std::vector<char> memory_;
  unsigned count_ = 0;
};

// The extents in the range. Empty if the filesystem does not support FIEMAP: then all data is compared.
std::vector<Extent> ExtentsOf(const SnapshotImage& image, const ByteRange& range) {
  std::vector<Extent> found;
  ExtentRequest extents;
  for (std::uint64_t at = range.begin; at < range.end;) {
    if (!extents.Ask(image.fd(), {at, range.end})) return {};
    for (unsigned i = 0; i < extents.count(); ++i) {
      const fiemap_extent extent = extents[i];
      at = extent.fe_logical + extent.fe_length;
      if (IsPlain(extent)) found.push_back({{extent.fe_logical, at}, extent.fe_physical});
      if ((extent.fe_flags & FIEMAP_EXTENT_LAST) != 0) return found;
    }
    if (extents.count() == 0) return found;
  }
  return found;
}

// The ranges in which both have the same extent at the same place. Both lists are sorted.
std::vector<ByteRange> SharedIn(const std::vector<Extent>& base, const std::vector<Extent>& target) {
  std::vector<ByteRange> shared;
  auto one = base.begin();
  for (auto other = target.begin(); one != base.end() && other != target.end();) {
    const ByteRange both = {std::max(one->at.begin, other->at.begin), std::min(one->at.end, other->at.end)};
    const bool same = one->physical - one->at.begin == other->physical - other->at.begin;
    if (both.begin < both.end && same) shared.push_back(both);
    (one->at.end < other->at.end ? one : other)++;
  }
  return shared;
}

// Leaves out whole shared blocks only: the edge of a shared range may share a block with other data.
std::vector<ByteRange> Without(const ByteRange& whole, const std::vector<ByteRange>& shared) {
  std::vector<ByteRange> rest;
  std::uint64_t at = whole.begin;
  for (const ByteRange& range : shared) {
    const ByteRange blocks = {std::max(BlockUp(range.begin), at), std::min(BlockDown(range.end), whole.end)};
    if (blocks.begin >= blocks.end) continue;
    if (at < blocks.begin) rest.push_back({at, blocks.begin});
    at = blocks.end;
  }
  if (at < whole.end) rest.push_back({at, whole.end});
  return rest;
}

// Reads zeros after the end of the file.
absl::Status ReadAt(const SnapshotImage& image, std::uint64_t offset, char* buffer, std::size_t length) {
  std::size_t done = 0;
  while (done < length) {
    const ssize_t got = ::pread(image.fd(), buffer + done, length - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read the snapshot", image.path());
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  std::memset(buffer + done, 0, length - done);
  return absl::OkStatus();
}

class Comparison {
 public:
  Comparison(const SnapshotImage& base, const SnapshotImage& target, const RangeSink& sink)
      : base_(base), target_(target), changed_(sink), ours_(kReadBytes), theirs_(kReadBytes) {
    struct stat one = {}, other = {};
    same_filesystem_ = ::fstat(base.fd(), &one) == 0 && ::fstat(target.fd(), &other) == 0 && one.st_dev == other.st_dev;
  }

  absl::Status Run(std::uint64_t from) {
    for (std::uint64_t at = BlockDown(from); at < target_.bytes();) {
      MOORING_ASSIGN_OR_RETURN(const ByteRange stretch, NextStretch(at));
      MOORING_RETURN_IF_ERROR(CompareUnshared(stretch));
      at = stretch.end;
    }
    return changed_.Finish();
  }

 private:
  // The first range from `at` in which at least one image has data, rounded to blocks; empty at the end: there is none.
  absl::StatusOr<ByteRange> NextStretch(std::uint64_t at) const {
    MOORING_ASSIGN_OR_RETURN(const ByteRange ours, target_.DataFrom(at));
    ByteRange next = ours;
    if (at < base_.bytes()) {
      MOORING_ASSIGN_OR_RETURN(const ByteRange theirs, base_.DataFrom(at));
      if (theirs.begin < theirs.end && (ours.begin == ours.end || theirs.begin < ours.begin)) next = theirs;
    }
    const ByteRange blocks = {std::max(BlockDown(next.begin), at), std::min(BlockUp(next.end), target_.bytes())};
    return ByteRange{std::min(blocks.begin, blocks.end), std::min(blocks.end, blocks.begin + kStretch)};
  }

  absl::Status CompareUnshared(const ByteRange& stretch) {
    std::vector<ByteRange> shared;
    if (same_filesystem_) shared = SharedIn(ExtentsOf(base_, stretch), ExtentsOf(target_, stretch));
    for (const ByteRange& rest : Without(stretch, shared)) MOORING_RETURN_IF_ERROR(Compare(rest));
    return absl::OkStatus();
  }

  absl::Status Compare(const ByteRange& range) {
    for (std::uint64_t at = range.begin; at < range.end;) {
      const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(range.end - at, kReadBytes));
      MOORING_RETURN_IF_ERROR(ReadAt(base_, at, theirs_.data(), length));
      MOORING_RETURN_IF_ERROR(ReadAt(target_, at, ours_.data(), length));
      for (std::size_t block = 0; block < length; block += kBlockBytes) {
        const std::size_t size = std::min<std::size_t>(kBlockBytes, length - block);
        if (std::memcmp(ours_.data() + block, theirs_.data() + block, size) == 0) continue;
        MOORING_RETURN_IF_ERROR(changed_.Add({at + block, at + block + size}));
      }
      at += length;
    }
    return absl::OkStatus();
  }

  const SnapshotImage& base_;
  const SnapshotImage& target_;
  Joiner changed_;
  std::vector<char> ours_, theirs_;
  bool same_filesystem_ = false;
};

}  // namespace

absl::StatusOr<SnapshotImage> SnapshotImage::Open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok()) return ErrnoStatus(errno, "open the snapshot", path);
  struct stat found = {};
  if (::fstat(fd.get(), &found) != 0) return ErrnoStatus(errno, "look at the snapshot", path);
  return SnapshotImage(path, std::move(fd), static_cast<std::uint64_t>(found.st_size));
}

absl::StatusOr<ByteRange> SnapshotImage::DataFrom(std::uint64_t from) const {
  const off_t begin = ::lseek(fd_.get(), static_cast<off_t>(from), SEEK_DATA);
  if (begin < 0 && errno == ENXIO) return ByteRange{bytes_, bytes_};
  const off_t end = begin < 0 ? -1 : ::lseek(fd_.get(), begin, SEEK_HOLE);
  if (end < 0) return ErrnoStatus(errno, "look for data in the snapshot", path_);
  return ByteRange{static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)};
}

absl::Status FindAllocated(const SnapshotImage& image, std::uint64_t from, const RangeSink& sink) {
  Joiner allocated(sink);
  for (std::uint64_t at = BlockDown(from); at < image.bytes();) {
    MOORING_ASSIGN_OR_RETURN(const ByteRange data, image.DataFrom(at));
    if (data.begin == data.end) break;
    MOORING_RETURN_IF_ERROR(
        allocated.Add({std::max(BlockDown(data.begin), BlockDown(from)), std::min(BlockUp(data.end), image.bytes())}));
    at = data.end;
  }
  return allocated.Finish();
}

absl::Status FindChanged(const SnapshotImage& base, const SnapshotImage& target, std::uint64_t from,
                         const RangeSink& sink) {
  return Comparison(base, target, sink).Run(from);
}

}  // namespace mooring

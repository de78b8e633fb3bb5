// Filesystems that mkfs has made once, made again by writing what it wrote: for images of exactly that size, with a
// UUID of their own. mkfs is a program to be started, which reads, asks and computes before it writes; what it writes
// into an image of 1 GiB are a few hundred KiB, always the same ones.
//
//   the first of its size:   mkfs ──▶ what is not zero is kept here, for the last few sizes
//   the next:                     what was kept ──▶ the file ──▶ the UUID in its superblocks
#ifndef MOORING_MOUNTER_FILESYSTEM_TEMPLATE_H_
#define MOORING_MOUNTER_FILESYSTEM_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"

namespace mooring {

class Template {
 public:
  // What a file holds. Null: too much to be kept.
  static absl::StatusOr<std::shared_ptr<const Template>> Of(const UniqueFd& file, const std::string& path);

  // Into an empty file of the same size.
  absl::Status WriteTo(const UniqueFd& file, const std::string& path) const;

  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Extent {
    std::uint64_t at = 0;
    std::string data;
  };
  void Add(std::uint64_t at, std::string_view block);

  std::vector<Extent> extents_;
  std::uint64_t bytes_ = 0;
};

// Those of this process; safe from several threads. Null: there is none.
std::shared_ptr<const Template> FindTemplate(const std::string& fs_type, std::uint64_t size);
void KeepTemplate(const std::string& fs_type, std::uint64_t size, std::shared_ptr<const Template> made);

}  // namespace mooring

#endif  // MOORING_MOUNTER_FILESYSTEM_TEMPLATE_H_

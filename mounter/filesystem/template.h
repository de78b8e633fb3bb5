// Keeps the blocks that mkfs wrote into an image, and writes them again into the next image of exactly that size. This
// saves the start of mkfs. It writes a few hundred KiB into an image of 1 GiB, the same each time but for the UUID.
//
//   first image of a size:   mkfs ──▶ blocks that are not zero ──▶ template, for the last few sizes
//   next image:              template ──▶ file ──▶ new UUID in its superblocks
#pragma once

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
  // The data of a file. Null: it is too much to keep.
  static absl::StatusOr<std::shared_ptr<const Template>> Of(const UniqueFd& file, const std::string& path);

  // Writes the data into an empty file of the same size.
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

// The templates of this process; safe from several threads. Null: there is none.
// `kind`: the filesystem and the options of its mkfs.
std::shared_ptr<const Template> FindTemplate(const std::string& kind, std::uint64_t size);
void KeepTemplate(const std::string& kind, std::uint64_t size, std::shared_ptr<const Template> made);

}  // namespace mooring

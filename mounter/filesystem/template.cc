#include "mounter/filesystem/template.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace mooring {
namespace {

constexpr std::uint64_t kBlock = 4096;

// Of the helper's memory. An ext4 of 10 GiB has 4 MiB, one of 1 GiB a seventh of that.
constexpr std::uint64_t kMostBytes = 8U << 20U;
constexpr std::size_t kMostTemplates = 8;

bool IsZero(std::string_view block) { return block.find_first_not_of('\0') == std::string_view::npos; }

struct Kept {
  std::string fs_type;
  std::uint64_t size = 0;
  std::shared_ptr<const Template> made;
};

// The one used last is first.
struct Shelf {
  std::mutex mutex;
  std::list<Kept> kept;

  std::list<Kept>::iterator Find(const std::string& fs_type, std::uint64_t size) {
    return std::find_if(kept.begin(), kept.end(),
                        [&](const Kept& entry) { return entry.fs_type == fs_type && entry.size == size; });
  }
  std::uint64_t Bytes() const {
    std::uint64_t bytes = 0;
    for (const Kept& entry : kept) bytes += entry.made->bytes();
    return bytes;
  }
};

Shelf& TheShelf() {
  static Shelf shelf;
  return shelf;
}

}  // namespace

void Template::Add(std::uint64_t at, std::string_view block) {
  if (extents_.empty() || extents_.back().at + extents_.back().data.size() != at) extents_.push_back({at, ""});
  extents_.back().data += block;
  bytes_ += block.size();
}

absl::StatusOr<std::shared_ptr<const Template>> Template::Of(const UniqueFd& file, const std::string& path) {
  auto made = std::make_shared<Template>();
  std::array<char, kBlock> block = {};
  for (off_t at = 0, hole = 0;; at += static_cast<off_t>(kBlock)) {
    if (at >= hole) {
      at = ::lseek(file.get(), at, SEEK_DATA);
      if (at < 0 && errno == ENXIO) return made;
      hole = at < 0 ? -1 : ::lseek(file.get(), at, SEEK_HOLE);
      if (hole < 0) return ErrnoStatus(errno, "look for data in", path);
    }
    const ssize_t got = ::pread(file.get(), block.data(), block.size(), at);
    if (got < 0) return ErrnoStatus(errno, "read", path);
    const std::string_view data(block.data(), static_cast<std::size_t>(got));
    if (!IsZero(data)) made->Add(static_cast<std::uint64_t>(at), data);
    if (made->bytes() > kMostBytes) return std::shared_ptr<const Template>();
  }
}

absl::Status Template::WriteTo(const UniqueFd& file, const std::string& path) const {
  for (const Extent& extent : extents_) {
    for (std::size_t done = 0; done < extent.data.size();) {
      const ssize_t put = ::pwrite(file.get(), extent.data.data() + done, extent.data.size() - done,
                                   static_cast<off_t>(extent.at + done));
      if (put < 0) return ErrnoStatus(errno, "write", path);
      done += static_cast<std::size_t>(put);
    }
  }
  return absl::OkStatus();
}

std::shared_ptr<const Template> FindTemplate(const std::string& fs_type, std::uint64_t size) {
  Shelf& shelf = TheShelf();
  const std::lock_guard<std::mutex> lock(shelf.mutex);
  const auto found = shelf.Find(fs_type, size);
  if (found == shelf.kept.end()) return nullptr;
  shelf.kept.splice(shelf.kept.begin(), shelf.kept, found);
  return found->made;
}

void KeepTemplate(const std::string& fs_type, std::uint64_t size, std::shared_ptr<const Template> made) {
  Shelf& shelf = TheShelf();
  const std::lock_guard<std::mutex> lock(shelf.mutex);
  if (shelf.Find(fs_type, size) != shelf.kept.end()) return;
  shelf.kept.push_front({fs_type, size, std::move(made)});
  while (shelf.kept.size() > kMostTemplates || shelf.Bytes() > kMostBytes) shelf.kept.pop_back();
}

}  // namespace mooring

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

// Limits the memory of the helper. The template of an ext4 of 10 GiB has 4 MiB, that of 1 GiB a seventh of it.
constexpr std::uint64_t kMostBytes = 8U << 20U;
constexpr std::size_t kMostTemplates = 8;

bool IsZero(std::string_view block) { return block.find_first_not_of('\0') == std::string_view::npos; }

struct Kept {
  std::string kind;
  std::uint64_t size = 0;
  std::shared_ptr<const Template> made;
};

// The template used last is first.
struct TemplateCache {
  std::mutex mutex;
  std::list<Kept> kept;

  std::list<Kept>::iterator Find(const std::string& kind, std::uint64_t size) {
    return std::find_if(kept.begin(), kept.end(),
                        [&](const Kept& entry) { return entry.kind == kind && entry.size == size; });
  }
  std::uint64_t Bytes() const {
    std::uint64_t bytes = 0;
    for (const Kept& entry : kept) bytes += entry.made->bytes();
    return bytes;
  }
};

TemplateCache& Templates() {
  static TemplateCache cache;
  return cache;
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

std::shared_ptr<const Template> FindTemplate(const std::string& kind, std::uint64_t size) {
  TemplateCache& cache = Templates();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  const auto found = cache.Find(kind, size);
  if (found == cache.kept.end()) return nullptr;
  cache.kept.splice(cache.kept.begin(), cache.kept, found);
  return found->made;
}

void KeepTemplate(const std::string& kind, std::uint64_t size, std::shared_ptr<const Template> made) {
  TemplateCache& cache = Templates();
  const std::lock_guard<std::mutex> lock(cache.mutex);
  if (cache.Find(kind, size) != cache.kept.end()) return;
  cache.kept.push_front({kind, size, std::move(made)});
  while (cache.kept.size() > kMostTemplates || cache.Bytes() > kMostBytes) cache.kept.pop_back();
}

}  // namespace mooring

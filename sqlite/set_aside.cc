#include "sqlite/set_aside.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/file/directory.h"
#include "base/file/path.h"
#include "base/status.h"

namespace mooring {
namespace {

constexpr std::size_t kKept = 3;
constexpr std::string_view kDamaged = ".damaged-";
constexpr std::string_view kBeside[] = {"-wal", "-shm"};

std::string NameNow(const std::string& path) {
  const auto now = std::chrono::system_clock::now();
  const auto since_epoch = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  return fmt::format("{}{}{:%Y%m%dT%H%M%S}.{:03}Z", path, kDamaged,
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), since_epoch.count() % 1000);
}

bool IsBeside(std::string_view name) {
  return std::any_of(std::begin(kBeside), std::end(kBeside), [&](std::string_view end) { return name.ends_with(end); });
}

// Sorted names are in the order of their times.
void RemoveOld(const std::string& path) {
  const std::string directory(ParentOf(path)), beginning = fmt::format("{}{}", NameOf(path), kDamaged);
  std::vector<std::string> found = EntriesOf(directory).value_or(std::vector<std::string>());
  std::erase_if(found, [&](const std::string& name) { return !name.starts_with(beginning) || IsBeside(name); });
  std::sort(found.begin(), found.end());
  for (std::size_t i = 0; i + kKept < found.size(); ++i) {
    const std::string file = directory + "/" + found[i];
    std::remove(file.c_str());
    for (const std::string_view end : kBeside) std::remove((file + std::string(end)).c_str());
  }
}

}  // namespace

bool IsDamaged(const SQLite::Exception& error) {
  constexpr int kPrimary = 0xFF;
  if (error.getErrorCode() < 0) return false;
  const int code = error.getErrorCode() & kPrimary;
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR;
}

void CheckPages(SQLite::Database& database) {
  const std::string found = database.execAndGet("PRAGMA quick_check(1)").getString();
  if (found != "ok") throw SQLite::Exception(found, SQLITE_CORRUPT);
}

absl::StatusOr<std::string> SetAside(const std::string& path) {
  const std::string aside = NameNow(path);
  if (std::rename(path.c_str(), aside.c_str()) != 0) return ErrnoStatus(errno, "set the damaged file aside", path);
  for (const std::string_view end : kBeside) {
    const std::string from = path + std::string(end), to = aside + std::string(end);
    if (std::rename(from.c_str(), to.c_str()) == 0 || errno == ENOENT) continue;
    return ErrnoStatus(errno, "set the damaged file aside", from);
  }
  RemoveOld(path);
  return aside;
}

}  // namespace mooring

// RpcTest::World describes everything that a call could change.
#include "tests/rpc/support/rpc_test.h"

namespace mooring::testing {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + ",";
  return text;
}

std::string Mounted(const std::string& path) {
  std::ostringstream text;
  for (const MountLine& line : MountsBelow(path)) {
    text << line.target << " " << line.root << " " << line.fs_type << " " << line.source << " " << Joined(line.options)
         << " " << Joined(line.super_options) << " " << Joined(line.propagation) << "\n";
  }
  return text.str();
}

std::string Attached(const std::vector<LoopLine>& loops) {
  std::ostringstream text;
  for (const LoopLine& loop : loops) {
    text << loop.device << " " << loop.backing_file << (loop.read_only ? " ro" : " rw")
         << (loop.auto_clear ? " autoclear" : "") << "\n";
  }
  return text.str();
}

bool IsWorkingFile(const fs::path& path) {
  const std::string name = path.filename();
  return name == "plugin.log" || name.ends_with(".runs") || name.find(".db") != std::string::npos;
}

// Sizes of directories depend on the filesystem, and a mounted image changes by itself. Both are left out.
std::string Entry(const fs::path& path, bool in_use) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return path.string() + " unreadable\n";
  std::ostringstream text;
  text << path.string() << " " << std::oct << status.st_mode << std::dec << " " << status.st_uid << ":"
       << status.st_gid;
  if (S_ISLNK(status.st_mode)) text << " -> " << fs::read_symlink(path).string();
  if (S_ISREG(status.st_mode)) text << " " << status.st_size;
  if (S_ISREG(status.st_mode) && !in_use) text << " " << status.st_ino << " " << status.st_mtim.tv_nsec;
  text << "\n";
  return text.str();
}

std::string Listing(const std::string& path, const std::vector<LoopLine>& loops) {
  std::vector<std::string> entries;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(path, error); at != fs::recursive_directory_iterator();
       at.increment(error)) {
    if (IsWorkingFile(at->path())) continue;
    const bool in_use = std::any_of(loops.begin(), loops.end(), [&](const LoopLine& loop) {
      return loop.backing_file.starts_with(at->path().string());
    });
    entries.push_back(Entry(at->path(), in_use));
  }
  std::sort(entries.begin(), entries.end());
  std::string text;
  for (const std::string& entry : entries) text += entry;
  return text;
}

std::string Recorded(const std::string& state_dir) {
  if (!fs::exists(state_dir + "/node.db")) return "";
  std::string text;
  for (const std::string& row : Rows(state_dir + "/node.db", "SELECT * FROM uses ORDER BY path")) text += row + "\n";
  return text;
}

}  // namespace

std::string RpcTest::World() {
  std::string catalog = "not served\n";
  if (const auto listed = driver_.List(); listed.status.ok()) catalog = listed->DebugString();
  const std::vector<LoopLine> loops = LoopsHere();
  return "MOUNTS\n" + Mounted(dir_.path()) + "LOOPS\n" + Attached(loops) + "FILES\n" + Listing(dir_.path(), loops) +
         "RECORDS\n" + Recorded(state_dir()) + "CATALOG\n" + catalog;
}

}  // namespace mooring::testing

#include "tests/support/kernel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/file/unique_fd.h"
#include "tests/support/holders.h"

namespace mooring::testing {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Empty for a device without a file, and for one that is no loop device.
std::string BackingFileOf(const std::string& name) {
  const std::string text = ReadFile("/sys/block/" + name + "/loop/backing_file");
  return text.substr(0, text.find('\n'));
}

// mountinfo writes blanks and backslashes as \ooo.
std::string Unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

MountLine Parse(const std::string& text) {
  const std::vector<std::string> words = Split(text, ' ');
  MountLine line;
  line.id = words[0];
  line.parent = words[1];
  line.root = Unescape(words[3]);
  line.target = Unescape(words[4]);
  line.options = Split(words[5], ',');
  std::size_t at = 6;
  for (; words[at] != "-"; ++at) line.propagation.push_back(words[at]);
  line.fs_type = words[at + 1];
  line.source = Unescape(words[at + 2]);
  line.super_options = Split(words[at + 3], ',');
  return line;
}

bool Contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool MountLine::Has(const std::string& option) const { return Contains(options, option); }
bool MountLine::SuperHas(const std::string& option) const { return Contains(super_options, option); }

std::vector<MountLine> Mounts() {
  std::vector<MountLine> mounts;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string text; std::getline(file, text);) mounts.push_back(Parse(text));
  return mounts;
}

std::vector<MountLine> MountsBelow(const std::string& path) {
  std::vector<MountLine> mounts = Mounts();
  std::erase_if(mounts,
                [&](const MountLine& line) { return line.target != path && !line.target.starts_with(path + "/"); });
  return mounts;
}

std::vector<MountLine> MountsAt(const std::string& path) {
  std::vector<MountLine> mounts = Mounts();
  std::erase_if(mounts, [&](const MountLine& line) { return line.target != path; });
  return mounts;
}

bool IsStacked(const std::string& path) {
  const std::vector<MountLine> mounts = MountsAt(path);
  return std::any_of(mounts.begin(), mounts.end(), [&](const MountLine& upper) {
    return std::any_of(mounts.begin(), mounts.end(), [&](const MountLine& lower) { return upper.parent == lower.id; });
  });
}

void ExpectNoCopies(const std::string& path) {
  std::set<std::string> targets;
  for (const MountLine& line : MountsBelow(path)) {
    EXPECT_TRUE(targets.insert(line.target).second) << "two mounts are at " << line.target;
  }
}

std::optional<MountLine> MountAt(const std::string& path) {
  const std::vector<MountLine> mounts = MountsAt(path);
  EXPECT_LE(mounts.size(), 1U) << "mounts are stacked at " << path;
  return mounts.empty() ? std::nullopt : std::optional<MountLine>(mounts.back());
}

std::vector<LoopLine> Loops() {
  std::vector<LoopLine> loops;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
    LoopLine line;
    line.backing_file = BackingFileOf(entry.path().filename());
    if (line.backing_file.empty() || IsHold(entry.path().filename())) continue;
    line.device = "/dev/" + entry.path().filename().string();
    line.read_only = ReadFile(entry.path() / "ro").starts_with('1');
    line.auto_clear = ReadFile(entry.path() / "loop/autoclear").starts_with('1');
    loops.push_back(line);
  }
  return loops;
}

std::vector<LoopLine> LoopsOver(const std::string& path_prefix) {
  std::vector<LoopLine> loops = Loops();
  std::erase_if(loops, [&](const LoopLine& line) { return !line.backing_file.starts_with(path_prefix); });
  return loops;
}

// While the device is open here, its number cannot pass to another file.
void DetachLoop(const LoopLine& loop) {
  const UniqueFd fd(::open(loop.device.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok() || BackingFileOf(std::filesystem::path(loop.device).filename()) != loop.backing_file) return;
  KillHolders(loop.device);
  DetachHold(loop.device);
  ::ioctl(fd.get(), LOOP_CLR_FD);
}

bool HasCapSysResource() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("CapEff:")) return ((std::stoull(line.substr(8), nullptr, 16) >> 24U) & 1U) != 0;
  }
  return false;
}

int TryWrite(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT, 0644));
  if (!fd.ok()) return errno;
  if (::pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return errno;
  return ::fsync(fd.get()) == 0 ? 0 : errno;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string FieldOf(const std::string& status, const std::string& key) {
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + ":")) continue;
    const std::size_t at = line.find_first_not_of(" \t", key.size() + 1);
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

std::string StatusField(pid_t pid, const std::string& key) {
  return FieldOf(ReadFile("/proc/" + std::to_string(pid) + "/status"), key);
}

bool Runs(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t state = stat.rfind(") ");
  return state != std::string::npos && stat[state + 2] != 'Z';
}

int Run(const std::string& shell_command) {
  const int status = std::system(shell_command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace mooring::testing

#include "manager/launch/process_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

constexpr std::size_t kLines = 5;
constexpr std::size_t kBytes = 800;

// The whole lines among the last kBytes, oldest first. Only the end of a longer line.
std::vector<std::string_view> SplitLastLines(std::string_view text) {
  std::vector<std::string_view> lines;
  if (text.size() > kBytes) text.remove_prefix(text.size() - kBytes);
  while (!text.empty() && lines.size() < kLines) {
    const std::size_t end = text.find_last_not_of("\r\n ");
    if (end == std::string_view::npos) break;
    text = text.substr(0, end + 1);
    const std::size_t start = text.rfind('\n');
    lines.insert(lines.begin(), start == std::string_view::npos ? text : text.substr(start + 1));
    text = start == std::string_view::npos ? std::string_view() : text.substr(0, start);
  }
  return lines;
}

std::string EndOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::streamoff>(file.tellg());
  file.seekg(std::max<std::streamoff>(0, size - static_cast<std::streamoff>(kBytes)));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

absl::StatusOr<UniqueFd> OpenProcessLog(const std::string& path) {
  UniqueFd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!log.ok()) return ErrnoStatus(errno, "open the log of a plugin", path);
  return log;
}

void TrimProcessLog(const std::string& path) {
  struct stat now = {};
  if (::stat(path.c_str(), &now) != 0 || now.st_size <= kLogKept) return;
  std::error_code ignored;  // without room for the copy, the old lines are lost
  std::filesystem::copy_file(path, path + ".1", std::filesystem::copy_options::overwrite_existing, ignored);
  std::filesystem::resize_file(path, 0, ignored);
}

std::string LastLinesOf(std::string_view text) {
  std::string joined;
  for (const std::string_view line : SplitLastLines(text)) {
    const std::string quoted = Quote(line, kBytes);
    if (!joined.empty()) joined += " | ";
    joined += quoted.substr(1, quoted.size() - 2);  // escaped, without its quotes
  }
  return joined;
}

std::string LastLines(const std::string& path) {
  const std::string lines = LastLinesOf(EndOf(path));
  return lines.empty() ? LastLinesOf(EndOf(path + ".1")) : lines;
}

}  // namespace mooring::manager

// docs/errors.md quotes only messages that the sources or the kernel have.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace mooring {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEllipsis = "…";  // in the page: a part that differs each time

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

// Without blanks and colons at the ends.
std::string Trimmed(const std::string& text) {
  constexpr std::string_view kJoints = " :";
  const std::size_t begin = text.find_first_not_of(kJoints);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kJoints) - begin + 1);
}

// The source with neighbouring string literals joined, as the compiler does, and without the escapes of quotes.
std::string JoinLiterals(const std::string& source) {
  std::string joined;
  for (std::size_t at = 0; at < source.size(); ++at) {
    const std::size_t next = source[at] == '"' ? source.find_first_not_of(" \n", at + 1) : std::string::npos;
    if (next != std::string::npos && next > at + 1 && source[next] == '"') {
      at = next;
    } else if (source.compare(at, 2, "\\\"") != 0) {
      joined += source[at];
    }
  }
  return joined;
}

// Contains the possible texts of messages: the sources of the plugin, and the text of each errno.
std::string Wording() {
  std::string wording;
  for (const char* folder : {"plugin", "mounter", "base", "sqlite"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(MOORING_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      wording += JoinLiterals(Read(entry.path()));
    }
  }
  for (int error = 1; error < 134; ++error) wording += std::string(std::strerror(error)) + '\n';
  return wording;
}

// The quotations in the first column of tables, and those at the beginning of a paragraph.
std::vector<std::string> Quotations(const std::string& page) {
  std::vector<std::string> quotations;
  for (const std::string& line : Split(page, "\n")) {
    const bool is_row = line.starts_with("| `");
    if (!is_row && !line.starts_with("`")) continue;
    const std::vector<std::string> parts = Split(is_row ? line.substr(2, line.find(" | ", 2) - 2) : line, "`");
    for (std::size_t i = 1; i < (is_row ? parts.size() : 2); i += 2) quotations.push_back(parts[i]);
  }
  return quotations;
}

TEST(ErrorsPageTest, QuotesTextsOfTheSources) {
  const std::string wording = Wording();
  const std::vector<std::string> quotations = Quotations(Read(fs::path(MOORING_SOURCE_DIR) / "docs/errors.md"));
  EXPECT_GT(quotations.size(), 50u);
  for (const std::string& quotation : quotations) {
    for (const std::string& piece : Split(quotation, kEllipsis)) {
      const std::string text = Trimmed(piece);
      EXPECT_NE(wording.find(text), std::string::npos) << "'" << text << "' of: " << quotation;
    }
  }
}

}  // namespace
}  // namespace mooring

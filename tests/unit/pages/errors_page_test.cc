// docs/errors.md quotes only messages that are in a string literal of the sources, or that the kernel has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
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

// The string literals of a C++ source. Neighbours are joined, as the compiler does.
class Literals {
 public:
  explicit Literals(std::string_view source) : rest_(source) {
    while (!rest_.empty()) Step();
    End();
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  void Step() {
    if (rest_.starts_with("//")) return Skip(rest_.find('\n'));
    if (rest_.starts_with("/*")) return Skip(rest_.find("*/") + 2);
    if (rest_.starts_with("R\"(")) return Raw();
    if (rest_[0] == '"') return Quoted('"');
    if (rest_[0] == '\'') return Quoted('\'');
    if (std::isspace(static_cast<unsigned char>(rest_[0])) != 0) return Skip(1);
    End();
    if (std::isalnum(static_cast<unsigned char>(rest_[0])) != 0) return Word();
    Skip(1);
  }
  // A name, or a number such as 1'000.
  void Word() {
    const auto is_part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '\''; };
    Skip(static_cast<std::size_t>(std::find_if_not(rest_.begin(), rest_.end(), is_part) - rest_.begin()));
  }
  void Raw() {
    const std::size_t end = rest_.find(")\"");
    open_.append(rest_.substr(3, end - 3));
    Skip(end + 2);
  }
  // Skips character literals.
  void Quoted(char mark) {
    for (Skip(1); !rest_.empty() && rest_[0] != mark; Skip(1)) {
      if (rest_[0] == '\\') Skip(1);
      if (mark == '"') open_ += rest_[0];
    }
    Skip(1);
  }
  void Skip(std::size_t count) { rest_.remove_prefix(std::min(count, rest_.size())); }
  void End() {
    if (!open_.empty()) all_.push_back(std::move(open_));
    open_.clear();
  }

  std::string_view rest_;
  std::string open_;
  std::vector<std::string> all_;
};

// The possible texts of messages, a line each: the literals of the plugin's sources, and the text of each errno.
std::string Wording() {
  std::string wording;
  for (const char* folder : {"plugin", "mounter", "base", "sqlite"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(MOORING_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      const std::string source = Read(entry.path());
      const Literals literals(source);
      for (const std::string& literal : literals.all()) wording += literal + '\n';
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

TEST(ErrorsPageTest, ReadsLiteralsAsTheCompilerDoes) {
  const Literals literals(R"(f("a \"b\" // c"
      "d", '"', 1'000); // "no"
      /* "no" */ g("e" + h("f"));)");
  EXPECT_EQ(literals.all(), (std::vector<std::string>{"a \"b\" // cd", "e", "f"}));
}

}  // namespace
}  // namespace mooring

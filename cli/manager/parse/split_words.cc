#include "cli/manager/parse/split_words.h"

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::cli::manager_area {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// The characters that a backslash escapes between double quotes. Before any other character, it is an ordinary one.
constexpr std::string_view kEscapable = "$`\"\\";

// Reads one word from the beginning of `line`, and removes it from `line`.
class WordReader {
 public:
  explicit WordReader(std::string_view& line) : line_(line) {}

  absl::StatusOr<std::string> Read() {
    while (!line_.empty() && kBlanks.find(line_[0]) == std::string_view::npos) MOORING_RETURN_IF_ERROR(ReadPart());
    return word_;
  }

 private:
  char Next() {
    const char c = line_[0];
    line_.remove_prefix(1);
    return c;
  }

  absl::Status ReadPart() {
    const char c = Next();
    if (c == '\'') return ReadSingle();
    if (c == '"') return ReadDouble();
    if (c != '\\') {
      word_ += c;
      return absl::OkStatus();
    }
    if (line_.empty()) return InvalidArgument("the command ends with a backslash");
    word_ += Next();
    return absl::OkStatus();
  }

  absl::Status ReadSingle() {
    const std::size_t end = line_.find('\'');
    if (end == std::string_view::npos) return InvalidArgument("a ' is not closed");
    word_ += line_.substr(0, end);
    line_.remove_prefix(end + 1);
    return absl::OkStatus();
  }

  absl::Status ReadDouble() {
    while (!line_.empty()) {
      const char c = Next();
      if (c == '"') return absl::OkStatus();
      const bool escapes = c == '\\' && !line_.empty() && kEscapable.find(line_[0]) != std::string_view::npos;
      word_ += escapes ? Next() : c;
    }
    return InvalidArgument("a \" is not closed");
  }

  std::string_view& line_;
  std::string word_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.empty()) break;
    MOORING_ASSIGN_OR_RETURN(words.emplace_back(), WordReader(line).Read());
  }
  if (words.empty()) return InvalidArgument("the command has no words");
  return words;
}

}  // namespace mooring::cli::manager_area

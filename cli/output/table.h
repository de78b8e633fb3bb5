// Answers laid out for people. Cells are made Visible here; empty ones show as "-".
#ifndef MOORING_CLI_OUTPUT_TABLE_H_
#define MOORING_CLI_OUTPUT_TABLE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mooring::cli {

// Rows below a line of headings, in columns as wide as their widest cell, two spaces apart.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);

  void Add(std::vector<std::string> cells);  // as many as there are headings
  std::string ToString() const;              // every line ends in a newline; headings alone where there are no rows

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "name  value" lines of one thing, the values aligned.
class Details {
 public:
  void Add(std::string_view name, std::string_view value);
  void AddIf(std::string_view name, std::string_view value);  // left out where the value is empty
  std::string ToString() const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_TABLE_H_

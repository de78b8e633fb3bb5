// Answers for people. The cells are made Visible here; an empty cell is shown as "-".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mooring::cli {

// Rows below a line of headings. Each column is as wide as its widest cell; columns are two spaces apart.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);

  void Add(std::vector<std::string> cells);  // one cell for each heading
  std::string ToString() const;              // every line ends with a newline; only the headings if there are no rows

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "name  value" lines that describe one object, with the values aligned.
class Details {
 public:
  void Add(std::string_view name, std::string_view value);
  void AddIf(std::string_view name, std::string_view value);  // nothing if the value is empty
  std::string ToString() const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

}  // namespace mooring::cli

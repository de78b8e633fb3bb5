#include "cli/output/table.h"

#include <algorithm>
#include <cstddef>

#include "base/text/terminal_text.h"

namespace mooring::cli {
namespace {

constexpr std::size_t kGap = 2;

// The number of characters of `text`, which is already Visible. Wide characters count as one.
std::size_t Width(std::string_view text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins));
}

std::string Cell(std::string_view text) { return text.empty() ? "-" : Visible(text); }

std::string Padded(const std::string& cell, std::size_t width) {
  return cell + std::string(width - Width(cell) + kGap, ' ');
}

}  // namespace

Table::Table(std::vector<std::string> headings) { Add(std::move(headings)); }

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Cell(cell);
  if (!rows_.empty()) cells.resize(rows_.front().size(), "-");
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) text += Padded(row[i], widths[i]);
    text += row.back() + "\n";
  }
  return text;
}

void Details::Add(std::string_view name, std::string_view value) { lines_.emplace_back(name, Cell(value)); }

void Details::AddIf(std::string_view name, std::string_view value) {
  if (!value.empty()) Add(name, value);
}

std::string Details::ToString() const {
  std::size_t width = 0;
  for (const auto& [name, value] : lines_) width = std::max(width, Width(name));
  std::string text;
  for (const auto& [name, value] : lines_) text += Padded(name, width) + value + "\n";
  return text;
}

}  // namespace mooring::cli

#include "base/text/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/text/quote.h"

namespace mooring {
namespace {

// Direction marks, overrides and isolates; line and paragraph separators.
bool Reorders(char32_t code) {
  return code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string Escape(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  const auto number = static_cast<std::uint32_t>(code);
  return code < 0x80 ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{:04x}", number);
}

}  // namespace

std::string Visible(std::string_view text) {
  std::string visible;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    if (character.bytes == 0) {
      visible += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (IsControl(character.code) || Reorders(character.code)) {
      visible += Escape(character.code);
    } else {
      visible += text.substr(0, character.bytes);
    }
    text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
  return visible;
}

namespace {

// $'…' of POSIX.1-2024 (bash, ksh, zsh), in ASCII alone.
std::string DollarQuote(std::string_view text) {
  std::string quoted = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      quoted.append("\\").push_back(c);
    } else if (byte < 0x80 && IsControl(byte)) {
      quoted += Escape(byte);
    } else if (byte >= 0x80) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "'";
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    if (end > 0) line += fmt::format("{}{}", line.empty() ? "" : "; ", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return line;
}

std::string ShellQuote(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%=,";  // mean themselves anywhere
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  if (Visible(text) != text) return DollarQuote(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace mooring

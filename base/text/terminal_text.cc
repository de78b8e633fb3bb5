#include "base/text/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace mooring {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

// The length in bytes of the sequence that begins with this byte; 0 if none does.
std::size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

Character Decode(std::string_view text) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = SequenceLength(lead);
  if (length == 0 || length > text.size()) return {};
  char32_t code = length == 1 ? lead : lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0U) != 0x80) return {};
    code = (code << 6) | (byte & 0x3FU);
  }
  const bool valid = code >= kSmallest[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  return valid ? Character{code, length} : Character{};
}

bool IsControl(char32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

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
    const Character character = Decode(text);
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

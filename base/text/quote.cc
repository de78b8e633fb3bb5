#include "base/text/quote.h"

#include <fmt/format.h>

#include "base/text/clean_text.h"

namespace mooring {
namespace {

bool IsBetween(unsigned char byte, unsigned low, unsigned high) { return low <= byte && byte <= high; }

// Unicode 15, table 3-7: which second bytes are well-formed depends on the first (no overlong form, no surrogate,
// nothing beyond U+10FFFF).
bool IsSecondByte(unsigned char first, unsigned char second) {
  if (first == 0xE0) return IsBetween(second, 0xA0, 0xBF);
  if (first == 0xED) return IsBetween(second, 0x80, 0x9F);
  if (first == 0xF0) return IsBetween(second, 0x90, 0xBF);
  if (first == 0xF4) return IsBetween(second, 0x80, 0x8F);
  return IsBetween(second, 0x80, 0xBF);
}

// The length of the UTF-8 sequence at the beginning of `text`; 0 if there is no valid one.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length = IsBetween(byte(0), 0xC2, 0xDF)   ? 2
                             : IsBetween(byte(0), 0xE0, 0xEF) ? 3
                             : IsBetween(byte(0), 0xF0, 0xF4) ? 4
                                                              : 0;
  if (length == 0 || length > text.size() || !IsSecondByte(byte(0), byte(1))) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (!IsBetween(byte(i), 0x80, 0xBF)) return 0;
  }
  return length;
}

// U+0000 to U+001F, U+007F to U+009F: terminals act on them.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace

std::string Quote(std::string_view text, std::size_t most) {
  std::string quoted = "'";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = Utf8Length(text.substr(at));
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    at += character.size();
    if (at > most) {
      quoted += fmt::format("… ({} bytes)", text.size());
      break;
    }
    if (length == 0 || IsControl(character)) {
      quoted += Hex(character);
    } else {
      if (character == "'" || character == "\\") quoted += '\\';
      quoted += character;
    }
  }
  return quoted + "'";
}

std::string JsonQuote(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    const char c = text[0];
    if (length == 0) {
      quoted += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return quoted + "\"";
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = Utf8Length(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string CleanText(std::string_view text, std::size_t most) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    const std::string_view character = length == 0 ? std::string_view("\uFFFD") : text.substr(0, length);
    if (clean.size() + character.size() > most) return clean + "…";
    clean += character;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

}  // namespace mooring

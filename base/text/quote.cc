#include "base/text/quote.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/clean_text.h"

namespace mooring {
namespace {

// The length in bytes of the sequence that begins with this byte; 0 if none does.
std::size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace

Utf8Character FirstCharacter(std::string_view text) {
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
  return valid ? Utf8Character{code, length} : Utf8Character{};
}

// Terminals act on them.
bool IsControl(char32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

std::string Quote(std::string_view text, std::size_t most) {
  std::string quoted = "'";
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character first = FirstCharacter(text.substr(at));
    const std::string_view character = text.substr(at, first.bytes == 0 ? 1 : first.bytes);
    at += character.size();
    if (at > most) {
      quoted += fmt::format("… ({} bytes)", text.size());
      break;
    }
    if (first.bytes == 0 || IsControl(first.code)) {
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
    const std::size_t length = FirstCharacter(text).bytes;
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

bool HasControlByte(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; });
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = FirstCharacter(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string CleanText(std::string_view text, std::size_t most) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = FirstCharacter(text).bytes;
    const std::string_view character = length == 0 ? std::string_view("\uFFFD") : text.substr(0, length);
    if (clean.size() + character.size() > most) return clean + "…";
    clean += character;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

}  // namespace mooring

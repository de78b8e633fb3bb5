// Names from outside: their characters, and their quoting before they reach a message or a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mooring {

// 'text' in single quotes. Control characters, quotes and bytes that are not UTF-8 are escaped. Text of more than
// `most` bytes is cut between two characters, and its full length is added.
std::string Quote(std::string_view text, std::size_t most = 256);

// A JSON string literal, quotes included; bytes that are not UTF-8 become U+FFFD.
std::string JsonQuote(std::string_view text);

bool IsUtf8(std::string_view text);

struct Utf8Character {
  char32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};
Utf8Character FirstCharacter(std::string_view text);  // `text` is not empty
bool IsControl(char32_t code);                        // C0, DEL or C1
bool HasControlByte(std::string_view text);           // C0 or DEL

}  // namespace mooring

// Text for people: names from outside are quoted and escaped before they reach a message or a log.
#ifndef MOORING_BASE_TEXT_QUOTE_H_
#define MOORING_BASE_TEXT_QUOTE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace mooring {

// 'text' in single quotes; control characters, quotes and bytes that are not UTF-8 escaped; cut after at most `most`
// bytes, never inside a character, with the full length named.
std::string Quote(std::string_view text, std::size_t most = 256);

// A JSON string literal, quotes included; bytes that are not UTF-8 become U+FFFD.
std::string JsonQuote(std::string_view text);

bool IsUtf8(std::string_view text);

}  // namespace mooring

#endif  // MOORING_BASE_TEXT_QUOTE_H_

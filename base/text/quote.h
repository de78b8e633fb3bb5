// Quoting of names from outside, before they reach a message or a log.
#ifndef MOORING_BASE_TEXT_QUOTE_H_
#define MOORING_BASE_TEXT_QUOTE_H_

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

}  // namespace mooring

#endif  // MOORING_BASE_TEXT_QUOTE_H_

// Text from elsewhere, made fit for a terminal and for a shell.
#ifndef MOORING_BASE_TEXT_TERMINAL_TEXT_H_
#define MOORING_BASE_TEXT_TERMINAL_TEXT_H_

#include <string>
#include <string_view>

namespace mooring {

// `text` with control characters (C0, DEL, C1), marks that reorder text and bytes that are no UTF-8 written as escapes:
// nothing a driver says moves a cursor, retitles a window or fakes a line.
std::string Visible(std::string_view text);

// `text` as one word of a POSIX shell, in quotes only where it needs them. What Visible would change, and so no longer
// name the same, is written as $'…' in ASCII: it survives a terminal and JSON.
std::string ShellQuote(std::string_view text);

}  // namespace mooring

#endif  // MOORING_BASE_TEXT_TERMINAL_TEXT_H_

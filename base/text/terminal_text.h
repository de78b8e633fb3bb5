// Text from other programs, made fit for a terminal and for a shell.
#pragma once

#include <string>
#include <string_view>

namespace mooring {

// Escapes control characters (C0, DEL, C1), marks that reorder text, and bytes that are not UTF-8. So text from a
// driver cannot move the cursor, change the window title or fake a line.
std::string Visible(std::string_view text);

// `text` without line breaks: "; " stands between its lines, and empty lines are left out.
std::string OneLine(std::string_view text);

// `text` as one word of a POSIX shell, quoted only if necessary. Text that Visible would change is written as $'…' in
// ASCII, so that it still names the same file after a terminal or JSON.
std::string ShellQuote(std::string_view text);

}  // namespace mooring

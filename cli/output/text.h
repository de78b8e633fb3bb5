// The width of text on a terminal. base/text/terminal_text.h makes text fit for one.
#ifndef MOORING_CLI_OUTPUT_TEXT_H_
#define MOORING_CLI_OUTPUT_TEXT_H_

#include <cstddef>
#include <string_view>

#include "base/text/terminal_text.h"

namespace mooring::cli {

// The number of characters of `text`, which is already Visible. Wide characters count as one.
std::size_t Width(std::string_view text);

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_TEXT_H_

// How text is laid out on a terminal; made fit for one by base/text/terminal_text.h.
#ifndef MOORING_CLI_OUTPUT_TEXT_H_
#define MOORING_CLI_OUTPUT_TEXT_H_

#include <cstddef>
#include <string_view>

#include "base/text/terminal_text.h"

namespace mooring::cli {

// Characters, not bytes: what `text` (already Visible) takes on a line. Wide characters count as one.
std::size_t Width(std::string_view text);

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_TEXT_H_

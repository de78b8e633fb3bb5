// The command line of a Mooring server.
#ifndef MOORING_BASE_PROGRAM_FLAGS_H_
#define MOORING_BASE_PROGRAM_FLAGS_H_

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "base/status.h"

namespace mooring {

// CANCELLED: --help was given; the message is the help text. INVALID_ARGUMENT: the message says in one line what is
// wrong.
inline absl::Status ParseFlags(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return absl::OkStatus();
  } catch (const CLI::CallForHelp&) {
    return absl::CancelledError(app.help().c_str());
  } catch (const CLI::ParseError& error) {
    const std::string text = error.what();
    return InvalidArgument(fmt::format("{} (see --help)", text.substr(0, text.find('\n'))));
  }
}

}  // namespace mooring

#endif  // MOORING_BASE_PROGRAM_FLAGS_H_

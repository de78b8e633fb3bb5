// The program `mooring`, without main.
#ifndef MOORING_CLI_RUN_H_
#define MOORING_CLI_RUN_H_

#include <ostream>

namespace mooring::cli {

// Exit statuses, part of the interface.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;    // a call failed, or the answer was no
inline constexpr int kExitUsage = 2;     // nothing was sent or done
inline constexpr int kExitFindings = 3;  // doctor: something is wrong

// Parses `argv`, does what it says and returns the exit status. Answers go to `out`, everything else to `err`.
int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace mooring::cli

#endif  // MOORING_CLI_RUN_H_

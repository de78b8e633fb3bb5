// Exit statuses of `mooring`: scripts rely on them (docs/cli.md, "For scripts").
#ifndef MOORING_CLI_OUTPUT_EXIT_STATUS_H_
#define MOORING_CLI_OUTPUT_EXIT_STATUS_H_

namespace mooring::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;    // a call failed, or the answer is no
inline constexpr int kExitUsage = 2;     // the command line is wrong: nothing was sent or done
inline constexpr int kExitFindings = 3;  // `mooring doctor` has found a problem

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_EXIT_STATUS_H_

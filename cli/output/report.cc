#include "cli/output/report.h"

#include "cli/output/exit_status.h"
#include "cli/output/failure.h"
#include "cli/output/usage.h"

namespace mooring::cli {

int Report(const absl::Status& failure, bool json, const CLI::App& app, const Streams& streams) {
  streams.err << "mooring: " << ToLine(failure) << '\n';
  const int status = ExitStatus(failure);
  if (status == kExitUsage) {
    streams.err << UsageHint(app);
  } else if (json) {
    streams.out << ToJson(failure) << '\n';
  }
  return status;
}

}  // namespace mooring::cli

#include "cli/output/report.h"

#include <CLI/CLI.hpp>

#include "cli/output/failure.h"

namespace mooring::cli {
namespace {

std::string PathOf(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : PathOf(*app.get_parent()) + " " + app.get_name();
}

}  // namespace

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

std::string UsageHint(const CLI::App& app) { return "Try '" + PathOf(app) + " --help'.\n"; }

}  // namespace mooring::cli

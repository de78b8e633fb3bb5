#include "cli/output/usage.h"

#include <CLI/CLI.hpp>

namespace mooring::cli {
namespace {

std::string PathOf(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : PathOf(*app.get_parent()) + " " + app.get_name();
}

}  // namespace

std::string UsageHint(const CLI::App& app) { return "Try '" + PathOf(app) + " --help'.\n"; }

}  // namespace mooring::cli

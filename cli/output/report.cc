#include "cli/output/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "absl/strings/cord.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/terminal_text.h"

namespace mooring::cli {
namespace {

std::string PathOf(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : PathOf(*app.get_parent()) + " " + app.get_name();
}

constexpr char kCallPayload[] = "mooring/call";
constexpr char kUnansweredPayload[] = "mooring/unanswered";

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

absl::Status OfCall(absl::Status status, std::string_view rpc) {
  status.SetPayload(kCallPayload, absl::Cord(absl::string_view(rpc.data(), rpc.size())));
  return status;
}

std::string CallOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kCallPayload);
  return payload ? std::string(*payload) : std::string();
}

absl::Status Unanswered(absl::Status status) {
  status.SetPayload(kUnansweredPayload, absl::Cord());
  return status;
}

bool IsUnanswered(const absl::Status& status) { return status.GetPayload(kUnansweredPayload).has_value(); }

int ExitStatus(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  return absl::IsInvalidArgument(status) && CallOf(status).empty() ? kExitUsage : kExitFailed;
}

std::string ToLine(const absl::Status& status) {
  const std::string rpc = CallOf(status);
  const std::string message = Visible(OneLine(Message(status)));
  if (rpc.empty()) return message;
  return fmt::format("{}: {} ({}): {}", rpc, absl::StatusCodeToString(status.code()), status.raw_code(), message);
}

std::string ToJson(const absl::Status& status) {
  return fmt::format(R"({{"rpc":{},"code":{},"code_name":{},"message":{}}})", JsonQuote(CallOf(status)),
                     status.raw_code(), JsonQuote(absl::StatusCodeToString(status.code())), JsonQuote(Message(status)));
}

}  // namespace mooring::cli

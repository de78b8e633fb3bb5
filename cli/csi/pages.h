// Lists that a driver returns in pages.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/text/terminal_text.h"
#include "cli/csi/command.h"

namespace mooring::cli::csi_area {

// Fetches all pages from the one that the flags name to the last, and merges them into one response. If a flag limits
// the entries, fetches one page and keeps its next_token. INTERNAL: the driver repeats a token, so the list would never
// end.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> FetchPages(const Session& session, Method<Stub, Request, Response> method) {
  Request request;
  MOORING_RETURN_IF_ERROR(FillRequest(session.arguments, request));
  Response all;
  std::set<std::string> seen{request.starting_token()};
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const Response page, session.Call(method, request));
    all.clear_next_token();
    all.MergeFrom(page);
    if (page.next_token().empty() || request.max_entries() > 0) return all;
    if (!seen.insert(page.next_token()).second) return Internal("the driver gave the same next_token twice");
    request.set_starting_token(page.next_token());
  }
}

// The line below a page that is not the last.
inline std::string NextPageHint(const std::string& next_token) {
  return next_token.empty() ? "" : "more with --token " + Visible(next_token) + "\n";
}

}  // namespace mooring::cli::csi_area

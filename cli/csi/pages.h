// Lists that a driver returns in pages.
#ifndef MOORING_CLI_CSI_PAGES_H_
#define MOORING_CLI_CSI_PAGES_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "cli/output/text.h"

namespace mooring::cli::csi_area {

// Fetches all pages from the one in `request` to the last, and merges them into one response. If `request` limits the
// entries, fetches one page and keeps its next_token. `fetch` fetches one page. INTERNAL: the driver repeats a token,
// so the list would never end.
template <typename Response, typename Request, typename Fetch>
absl::StatusOr<Response> FetchPages(Request request, Fetch fetch) {
  Response all;
  std::set<std::string> seen{request.starting_token()};
  for (;;) {
    MOORING_ASSIGN_OR_RETURN(const Response page, fetch(request));
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

#endif  // MOORING_CLI_CSI_PAGES_H_

#include "manager/requests/controller_with_others.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

constexpr std::size_t kMostHosts = 8;  // that are asked in one call

struct Refusal {
  std::string host;
  absl::Status status;
};

// All instances of a plugin have the same calls. An error that may come half-way is final: CSI demands OK for a delete
// from a host that does not know the volume.
bool MayOthersDoIt(const absl::Status& status) {
  return (IsRefusal(status) || absl::IsNotFound(status)) && !absl::IsUnimplemented(status);
}

// An error that may come half-way must not be hidden by a refusal, nor a refusal by NOT_FOUND, which a caller may take
// for success.
int Weight(const absl::Status& status) {
  if (absl::IsNotFound(status)) return 0;
  return IsRefusal(status) ? 1 : 2;
}

absl::Status Summarize(const std::vector<Refusal>& refusals) {
  const auto heaviest = std::max_element(refusals.begin(), refusals.end(), [](const Refusal& a, const Refusal& b) {
    return Weight(a.status) < Weight(b.status);
  });
  const bool all_say_the_same = std::all_of(refusals.begin(), refusals.end(), [&](const Refusal& refusal) {
    return refusal.status.message() == heaviest->status.message();
  });
  if (all_say_the_same) return heaviest->status;
  std::string all;
  for (const Refusal& refusal : refusals) {
    all += fmt::format("{}on host {}: {}", all.empty() ? "" : "; ", Quote(refusal.host), Message(refusal.status));
  }
  return absl::Status(heaviest->status.code(), all);
}

}  // namespace

absl::Status ControllerWithOthers::Call(const std::string& method, const google::protobuf::Message& request,
                                        google::protobuf::Message& response, Clock::time_point until) {
  std::vector<Refusal> refusals = {{host_, first_->Call(method, request, response, until)}};
  ControllerFor next = controller_;
  while (MayOthersDoIt(refusals.back().status)) {
    next.refused_by.push_back(refusals.back().host);
    const std::optional<ControllerOffer> offer = offers_.NextOfOthers(next);
    if (!offer || refusals.size() == kMostHosts || Clock::now() >= until) return Summarize(refusals);
    refusals.push_back({offer->host, sender_.Call({next, offer->host}, method, request, response, until, closed_)});
  }
  return refusals.back().status;
}

void ControllerWithOthers::Close() {
  closed_ = true;
  first_->Close();
  table_.Wake();
}

}  // namespace mooring::manager

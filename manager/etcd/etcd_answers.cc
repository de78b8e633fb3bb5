#include "manager/etcd/etcd_answers.h"

#include <string>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

bool IsAskedFor(const etcdserverpb::RangeRequest& asked, const std::string& key) {
  const std::string& end = asked.range_end();
  if (end.empty()) return key == asked.key();
  return key >= asked.key() && (end == std::string(1, '\0') || key < end);
}

}  // namespace

absl::Status CheckPage(const etcdserverpb::RangeRequest& asked, const etcdserverpb::RangeResponse& page) {
  const std::string* last = nullptr;
  for (const mvccpb::KeyValue& found : page.kvs()) {
    if (!IsAskedFor(asked, found.key())) return Internal("the key {} was not asked for", Quote(found.key()));
    if (last != nullptr && found.key() <= *last) return Internal("the key {} is not in order", Quote(found.key()));
    last = &found.key();
  }
  if (page.more() && last == nullptr) return Internal("a page without keys is not the last one");
  return absl::OkStatus();
}

const mvccpb::KeyValue* FoundBy(const etcdserverpb::TxnResponse& response, int step) {
  if (step >= response.responses_size()) return nullptr;
  const etcdserverpb::RangeResponse& range = response.responses(step).response_range();
  return range.kvs().empty() ? nullptr : &range.kvs(0);
}

}  // namespace mooring::manager

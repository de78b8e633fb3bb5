#include "manager/state/transaction.h"

#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {

absl::Status CheckKeys(const Transaction& transaction) {
  std::set<std::string_view> seen;
  const auto twice = [](std::string_view key) {
    return InvalidArgument("{} is changed twice in one transaction", Quote(key));
  };
  for (const std::string& key : transaction.deletes) {
    if (!seen.insert(key).second) return twice(key);
  }
  for (const Transaction::Put& put : transaction.puts) {
    if (!seen.insert(put.key).second) return twice(put.key);
  }
  return absl::OkStatus();
}

absl::Status CheckRevision(const Transaction::Compare& compare, std::int64_t found) {
  if (found == compare.modify_revision) return absl::OkStatus();
  if (found == 0) return Aborted("{} was deleted meanwhile: read it again", Quote(compare.key));
  return Aborted("{} has revision {} now, and the change was made to revision {}: read it again", Quote(compare.key),
                 found, compare.modify_revision);
}

}  // namespace mooring::manager

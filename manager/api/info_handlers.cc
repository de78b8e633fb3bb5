#include "base/version.h"
#include "manager/api/handlers.h"
#include "manager/records/field_copier.h"

namespace mooring::manager {

absl::StatusOr<v1::GetManagerInfoResponse> InfoHandlers::GetManagerInfo(
    const v1::GetManagerInfoRequest& /*request*/) const {
  v1::GetManagerInfoResponse info;
  info.set_version(Version());
  info.set_host(host);
  info.set_root(root);
  info.set_started_at_ms(ToMs(started_at));
  info.set_restoring(attachments.restoring());
  for (const OwedWork& owed : work.List()) {
    v1::OwedWork& one = *info.add_owed();
    one.set_kind(owed.kind);
    one.set_what(owed.key);
    one.set_plugin(owed.plugin);
    one.set_since_ms(ToMs(owed.since));
    one.set_tries(owed.tries);
    one.set_problem(owed.problem);
    if (owed.next_try) {
      one.set_next_try_ms(std::chrono::duration_cast<std::chrono::milliseconds>(*owed.next_try).count());
    }
  }
  return info;
}

}  // namespace mooring::manager

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
  return info;
}

}  // namespace mooring::manager

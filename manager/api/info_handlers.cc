#include <chrono>

#include "base/version.h"
#include "manager/api/handlers.h"

namespace mooring::manager {

absl::StatusOr<v1::GetManagerInfoResponse> InfoHandlers::GetManagerInfo() const {
  v1::GetManagerInfoResponse info;
  info.set_version(Version());
  info.set_host(host);
  info.set_root(root);
  info.set_started_at_ms(std::chrono::duration_cast<std::chrono::milliseconds>(started_at.time_since_epoch()).count());
  info.set_restoring(attachments.restoring());
  return info;
}

}  // namespace mooring::manager

#include "mounter/encryption/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr char kControl[] = "/dev/mapper/control";

absl::StatusOr<UniqueFd> OpenControl() {
  UniqueFd control(::open(kControl, O_RDWR | O_CLOEXEC));
  if (control.ok()) return control;
  if (errno != ENOENT && errno != ENODEV) return ErrnoStatus(errno, "open", kControl);
  return FailedPrecondition("{} is missing: encrypted volumes need the kernel's device mapper (modprobe dm_crypt)",
                            kControl);
}

dm_ioctl RequestAbout(const std::string& name, std::uint32_t flags, std::uint32_t data_size) {
  dm_ioctl request = {};
  request.version[0] = 4;  // DM_VERSION_MAJOR: any kernel takes the oldest minor version
  request.data_size = data_size;
  request.data_start = sizeof(request);
  request.flags = flags;
  name.copy(request.name, sizeof(request.name) - 1);
  return request;
}

// 0 or the errno. `request` gets the answer, which has no data behind it.
int Ask(const UniqueFd& control, unsigned long command, const std::string& name, std::uint32_t flags,
        dm_ioctl& request) {
  request = RequestAbout(name, flags, sizeof(request));
  return ::ioctl(control.get(), command, &request) == 0 ? 0 : errno;
}

// For DM_TARGET_MSG, which expects the fields of dm_target_msg behind dm_ioctl.
struct MessageRequest {
  dm_ioctl request;
  std::uint64_t sector;
  std::array<char, 32> text;
};

absl::Status Change(const std::string& name, unsigned long command, std::uint32_t flags, const char* doing) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd control, OpenControl());
  dm_ioctl request;
  const int error = Ask(control, command, name, flags, request);
  return error == 0 || error == ENXIO ? absl::OkStatus() : ErrnoStatus(error, doing, name);
}

}  // namespace

std::string Mapping::Device() const { return fmt::format("/dev/dm-{}", minor(number)); }

absl::StatusOr<std::optional<Mapping>> FindMapping(const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd control, OpenControl());
  dm_ioctl found;
  const int error = Ask(control, DM_DEV_STATUS, name, 0, found);
  if (error == ENXIO) return std::optional<Mapping>();
  if (error != 0) return ErrnoStatus(error, "look at the mapping", name);
  const auto has = [&found](std::uint32_t flag) { return (found.flags & flag) != 0; };
  return Mapping{.uuid = std::string(found.uuid, ::strnlen(found.uuid, sizeof(found.uuid))),
                 .number = static_cast<dev_t>(found.dev),
                 .has_table = has(DM_ACTIVE_PRESENT_FLAG),
                 .is_suspended = has(DM_SUSPEND_FLAG),
                 .is_leaving = has(DM_DEFERRED_REMOVE)};
}

absl::Status RemoveMapping(const std::string& name) {
  return Change(name, DM_DEV_REMOVE, DM_DEFERRED_REMOVE, "remove the mapping");
}

// The kernel takes this message itself, whatever the target is.
absl::StatusOr<bool> KeepMapping(const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd control, OpenControl());
  MessageRequest message = {.request = RequestAbout(name, 0, sizeof(message)), .sector = 0, .text = {}};
  std::string_view("@cancel_deferred_remove").copy(message.text.data(), message.text.size() - 1);
  if (::ioctl(control.get(), DM_TARGET_MSG, &message) == 0) return true;
  if (errno == ENXIO || errno == EBUSY) return false;
  return ErrnoStatus(errno, "keep the mapping", name);
}

// Without DM_SUSPEND_FLAG this command resumes.
absl::Status ResumeMapping(const std::string& name) { return Change(name, DM_DEV_SUSPEND, 0, "resume the mapping"); }

}  // namespace mooring

#include "mounter/sys/device_name.h"

#include <linux/major.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>

#include "base/file/path.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

// "/dev/loop3": its minor number is in its name.
std::optional<dev_t> LoopNamed(std::string_view name) {
  constexpr std::string_view kLoop = "/dev/loop";
  if (!name.starts_with(kLoop)) return std::nullopt;
  const auto number = ParseWhole<unsigned>(name.substr(kLoop.size()));
  return number ? std::optional<dev_t>(makedev(LOOP_MAJOR, *number)) : std::nullopt;
}

}  // namespace

std::optional<dev_t> DeviceNamed(std::string_view name) {
  if (const std::optional<dev_t> loop = LoopNamed(name)) return loop;
  struct stat status = {};
  if (!IsBelow(name, "/dev") || ::stat(std::string(name).c_str(), &status) != 0) return std::nullopt;
  return S_ISBLK(status.st_mode) ? std::optional<dev_t>(status.st_rdev) : std::nullopt;
}

}  // namespace mooring

#include "mounter/sys/device_name.h"

#include <fmt/format.h>
#include <limits.h>
#include <linux/major.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>

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

std::string BlockDeviceName(dev_t device) {
  std::array<char, PATH_MAX> place = {};
  const std::string link = fmt::format("/sys/dev/block/{}:{}", major(device), minor(device));
  const ssize_t size = ::readlink(link.c_str(), place.data(), place.size());
  return size < 0 ? "" : std::string(NameOf(std::string_view(place.data(), static_cast<std::size_t>(size))));
}

}  // namespace mooring

#include "mounter/path/lvm_names.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr std::size_t kLongestDevice = 126;  // below the 127 bytes of DM_NAME_LEN, linux/dm-ioctl.h
constexpr std::size_t kLongestVolume = 48;   // with its '-' doubled

constexpr std::array<std::string_view, 2> kReservedStarts = {"snapshot", "pvmove"};
constexpr std::array<std::string_view, 14> kReservedParts = {"_cdata", "_cmeta",   "_corig",   "_iorig", "_mimage",
                                                             "_mlog",  "_pmspare", "_rimage",  "_rmeta", "_tdata",
                                                             "_tmeta", "_vdata",   "_vorigin", "_wcorig"};

// Not isalnum(3), which asks the locale.
bool IsLetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool IsCharacterOfName(char c) { return IsLetterOrDigit(c) || c == '+' || c == '_' || c == '.' || c == '-'; }

bool IsName(std::string_view name) {
  return !name.empty() && name.front() != '-' && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), IsCharacterOfName);
}

bool IsReserved(std::string_view name) {
  return std::any_of(kReservedStarts.begin(), kReservedStarts.end(),
                     [&](std::string_view start) { return name.starts_with(start); }) ||
         std::any_of(kReservedParts.begin(), kReservedParts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

std::string WithDoubledDashes(std::string_view name) {
  std::string doubled;
  for (const char c : name) doubled.append(c == '-' ? 2 : 1, c);
  return doubled;
}

absl::Status CheckName(std::string_view name, std::string_view kind, const std::string& pool) {
  if (IsName(name)) return absl::OkStatus();
  return InvalidArgument(
      "LVM pool {}: {} is no name of a {}: a-z A-Z 0-9 + _ . - are allowed, but no '-' at first. Give GROUP or "
      "GROUP/THINPOOL",
      Quote(pool), Quote(name), kind);
}

}  // namespace

absl::StatusOr<LvmPool> ParseLvmPool(const std::string& pool) {
  const std::size_t slash = pool.find('/');
  LvmPool parsed = {.group = pool.substr(0, slash), .thin_pool = {}};
  MOORING_RETURN_IF_ERROR(CheckName(parsed.group, "volume group", pool));
  if (slash != std::string::npos) {
    parsed.thin_pool = pool.substr(slash + 1);
    MOORING_RETURN_IF_ERROR(CheckName(parsed.thin_pool, "thin pool", pool));
    if (IsReserved(parsed.thin_pool)) {
      return InvalidArgument("LVM pool {}: lvm keeps the name {} for itself", Quote(pool), Quote(parsed.thin_pool));
    }
  }
  const std::size_t longest = std::max(LvmDeviceName(parsed.group, parsed.thin_pool).size(),
                                       LvmDeviceName(parsed.group, std::string(kLongestVolume, 'x')).size());
  if (longest <= kLongestDevice) return parsed;
  return InvalidArgument("LVM pool {}: its names are too long for the device mapper: rename it (vgrename, lvrename)",
                         Quote(pool));
}

bool IsLvmVolumeName(std::string_view name) {
  const bool is_ours = name.starts_with("vol-") || name.starts_with("snap-");
  return is_ours && !name.ends_with('-') && WithDoubledDashes(name).size() <= kLongestVolume &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLetterOrDigit(c) || c == '-'; });
}

std::string LvmDeviceName(std::string_view group, std::string_view name) {
  return WithDoubledDashes(group) + "-" + WithDoubledDashes(name);
}

std::string LvmDevicePath(const LvmPool& pool, std::string_view name) {
  return "/dev/mapper/" + LvmDeviceName(pool.group, name);
}

}  // namespace mooring

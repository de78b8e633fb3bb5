// Hides devices of tenants from lvm. It scans all block devices, and a tenant can write anything into its own: also a
// volume group that has the name of a pool's.
//
// lvm takes a device if a pattern accepts any of its names, such as a link in /dev/disk. So Mooring's patterns, which
// only reject, stand alone in a filter that the host does not use. They stand in front of the host's patterns only if
// it uses both filters. A devices file (lvmdevices(8)) replaces all filters, and leaves out the devices of tenants.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mooring {

// The patterns of two settings of lvm.conf(5), quoted and separated by commas. Empty: all devices pass.
struct LvmHostFilters {
  std::string filter;
  std::string global_filter;
};

// `text`: both settings, as lvmconfig prints them. INTERNAL: it is not that.
absl::StatusOr<LvmHostFilters> ParseHostFilters(const std::string& text);

// A setting for the section "devices". Rejects `devices`, which are names of /sys/class/block, their partitions, all
// raw devices (mounter/loop/raw_device.h), and the logical volumes of Mooring.
std::string HidingFilter(const LvmHostFilters& host, const std::vector<std::string>& devices);

}  // namespace mooring

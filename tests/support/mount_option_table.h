// docs/mount-options.tsv, which says what mount(8) and Mooring do with each option. It is compiled in.
#pragma once

#include <string>
#include <vector>

namespace mooring::testing {

// The columns of the table. "-": nothing.
struct MountOptionRow {
  std::string filesystems;  // "all", or names with spaces between them
  std::string option;       // as after `mount -o`
  std::string values;       // that Mooring takes
  std::string by_mount;     // "takes", "refuses", or "depends": on the versions of Linux and mount(8)
  std::string by_mooring;   // "attribute", "passes", "ignores", "command line" or "refuses"
  std::string shown;        // by the kernel, in mountinfo
  std::string remark;

  std::string Key() const { return option.substr(0, option.find('=')); }
  bool IsFor(const std::string& fs_type) const;
};

const std::vector<MountOptionRow>& MountOptionTable();

}  // namespace mooring::testing

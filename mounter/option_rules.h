// The options that Mooring passes on to each filesystem: ext4(5), xfs(5), btrfs(5), tmpfs(5) and mount(8).
// docs/mount-options.tsv lists all options of these pages, and why the others are refused: change both.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mooring {

// An option of a filesystem. kSize: a power of two with the unit k, m or g, or none. kLabel: of SELinux.
// kAddress: of IP.
struct OptionRule {
  std::string_view name;
  enum class Value { kNone, kNumber, kPowerOfTwo, kSize, kWord, kWordOrNone, kLabel, kAddress } value = Value::kNone;
  std::uint64_t least = 0, most = 0;             // the range of a number or size
  std::span<const std::string_view> words = {};  // the allowed words
  std::string_view opposites = "";               // names with spaces between: the kernel takes the last of such options
};

// Whether one list cannot have this option and the other: the order of a list has no meaning for Mooring.
bool Contradicts(const OptionRule& rule, std::string_view other);

// The options of this filesystem alone. Empty: it has none.
std::span<const OptionRule> OwnOptions(std::string_view fs_type);

// All filesystems with options of their own have these: sync, and the like.
std::span<const OptionRule> CommonOptions();

// The labels of SELinux, mount(8).
std::span<const OptionRule> LabelOptions();

// Taken and left out: they are defaults of every filesystem, or have no effect on a volume.
std::span<const OptionRule> IgnoredOptions();

// All that may be passed on. An own option replaces the common one of the same name.
std::vector<const OptionRule*> RulesOf(std::string_view fs_type);

}  // namespace mooring

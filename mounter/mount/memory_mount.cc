#include "mounter/mount/memory_mount.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "mounter/mount/id_map.h"
#include "mounter/mount/new_mount.h"
#include "mounter/table/known_memory.h"

namespace mooring {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFewestInodes = 64;

bool IsOneOf(std::string_view text, std::string_view digits) {
  return !text.empty() && text.size() <= 20 && text.find_first_not_of(digits) == std::string_view::npos;
}

bool IsMemoryOption(const FilesystemOption& option) {
  const std::string value = option.value.value_or("");
  if (option.key == "size" || option.key == "nr_inodes") return IsOneOf(value, "0123456789");
  if (IsAllowed(kMemoryFsType, option)) return true;
  if (option.key == "mode") return IsOneOf(value, "01234567");
  return option.key == "huge" && value == "never";
}

bool Has(const std::vector<FilesystemOption>& options, std::string_view key) {
  return std::any_of(options.begin(), options.end(), [&](const FilesystemOption& option) { return option.key == key; });
}

// Empty: there is no such option, or several, of which the kernel takes the last. Or it is no number, or 0, which means
// "no limit".
std::optional<std::uint64_t> NumberOf(const std::vector<FilesystemOption>& options, std::string_view key) {
  const auto is = [&](const FilesystemOption& option) { return option.key == key; };
  if (std::count_if(options.begin(), options.end(), is) != 1) return std::nullopt;
  const std::string text = std::find_if(options.begin(), options.end(), is)->value.value_or("");
  const auto number = ParseWhole<std::uint64_t>(text);
  return number != 0 ? number : std::nullopt;
}

// Inodes take memory that the size does not count. So there may be as many as pages.
absl::Status CheckLimits(const std::vector<FilesystemOption>& options) {
  const std::optional<std::uint64_t> bytes = NumberOf(options, "size"), inodes = NumberOf(options, "nr_inodes");
  if (!bytes && Has(options, "size")) return InvalidArgument("the size of a tmpfs is 0 or too large a number");
  if (!Has(options, "nr_inodes")) return absl::OkStatus();
  if (!bytes) return InvalidArgument("a tmpfs gets no nr_inodes without a size");
  const std::uint64_t most = std::max(*bytes / kPage, kFewestInodes);
  if (inodes && *inodes <= most) return absl::OkStatus();
  return InvalidArgument("a tmpfs of {} bytes has 1 to {} inodes (nr_inodes)", *bytes, most);
}

}  // namespace

absl::Status CheckMemoryOptions(const std::vector<FilesystemOption>& options) {
  std::set<std::string> keys;
  for (const FilesystemOption& option : options) {
    if (!IsMemoryOption(option)) return InvalidArgument("option {} is not allowed for tmpfs", Quote(option.key));
    if (keys.insert(option.key).second) continue;
    return InvalidArgument("option {} is given twice for a tmpfs", Quote(option.key));
  }
  return CheckLimits(options);
}

std::optional<std::uint64_t> MemorySizeIn(const std::vector<FilesystemOption>& options) {
  return NumberOf(options, "size");
}

absl::Status MountMemory(const MountRequest& request, const Target& target) {
  if (request.source.empty()) return InvalidArgument("a tmpfs needs a source: it says which volume it is");
  if (!MemorySizeIn(request.options))
    return InvalidArgument("a tmpfs needs a size: without it, it could take all memory");
  MOORING_ASSIGN_OR_RETURN(NewMount mount, MakeMount(request, request.source));
  if (request.new_root) MOORING_RETURN_IF_ERROR(mount.SetNewRoot(*request.new_root));
  if (request.group) MOORING_RETURN_IF_ERROR(mount.SetGroup(*request.group));
  MOORING_RETURN_IF_ERROR(mount.Set(request.flags, Propagation::kInherit, false));
  RememberMemory(mount.fd(), request.source);
  MOORING_ASSIGN_OR_RETURN(NewMount complete, WithIds(std::move(mount), request.idmap, false));
  return Attach(std::move(complete), target, TargetKind::kDirectory, request.propagation, false);
}

}  // namespace mooring

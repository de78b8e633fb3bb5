#include "mounter/memory_mount.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <utility>

#include "base/quote.h"
#include "base/status.h"
#include "mounter/new_mount.h"

namespace mooring {
namespace {

bool IsOneOf(std::string_view text, std::string_view digits) {
  return !text.empty() && text.size() <= 20 && text.find_first_not_of(digits) == std::string_view::npos;
}

bool IsMemoryOption(const FilesystemOption& option) {
  const std::string value = option.value.value_or("");
  if (option.key == "size" || option.key == "nr_inodes") return IsOneOf(value, "0123456789");
  if (option.key == "mode") return IsOneOf(value, "01234567");
  return option.key == "huge" && value == "never";
}

absl::Status MountMemoryBy(MountApi api, const MountRequest& request, const Target& target) {
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<NewMount> mount, MakeMount(api, request, request.source));
  if (request.group) MOORING_RETURN_IF_ERROR(SetGroup(*mount, *request.group));
  MOORING_RETURN_IF_ERROR(mount->Set(request.flags, request.propagation, false));
  return Attach(std::move(mount), target, TargetKind::kDirectory, request.propagation, false);
}

}  // namespace

absl::Status CheckMemoryOptions(const std::vector<FilesystemOption>& options) {
  const auto wrong = std::find_if_not(options.begin(), options.end(), IsMemoryOption);
  if (wrong == options.end()) return absl::OkStatus();
  return InvalidArgument(fmt::format("option {} is not allowed for tmpfs", Quote(wrong->key)));
}

std::optional<std::uint64_t> MemorySizeIn(const std::vector<FilesystemOption>& options) {
  for (const FilesystemOption& option : options) {
    if (option.key != "size" || !option.value) continue;
    const std::string& text = *option.value;
    std::uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && bytes != 0 ? std::optional<std::uint64_t>(bytes) : std::nullopt;
  }
  return std::nullopt;
}

absl::Status MountMemory(const MountRequest& request, const Target& target) {
  if (request.source.empty()) return InvalidArgument("a tmpfs without a source: nobody would know whose it is");
  if (!MemorySizeIn(request.options)) return InvalidArgument("a tmpfs without a size: it could take all memory");
  return WithMountApi([&](MountApi api) { return MountMemoryBy(api, request, target); });
}

}  // namespace mooring

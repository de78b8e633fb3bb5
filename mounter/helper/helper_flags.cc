#include "mounter/helper/helper_flags.h"

#include <fmt/format.h>
#include <getopt.h>

#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/status.h"
#include "base/text/whole_number.h"

namespace mooring {
namespace {

struct ListFlag {
  const char* name;
  std::vector<std::string> HelperPolicy::*list;
};
constexpr ListFlag kListFlags[] = {
    {"mount-root", &HelperPolicy::roots},
    {"source", &HelperPolicy::sources},
    {"forbid-below", &HelperPolicy::forbidden_trees},
    {"forbid", &HelperPolicy::forbidden_places},
    {"volume-directory", &HelperPolicy::volume_directories},
    {"subvolume-pool", &HelperPolicy::subvolume_pools},
    {"sized-pool", &HelperPolicy::sized_pools},
    {"device-links", &HelperPolicy::device_links},
    {"lvm-pool", &HelperPolicy::lvm_pools},
    {"encrypted-pool", &HelperPolicy::encrypted_pools},
    {"export", &HelperPolicy::exports},
    {"fs-type", &HelperPolicy::fs_types},
};

struct TextFlag {
  const char* name;
  std::string& (*text)(HelperFlags&);
};
constexpr TextFlag kTextFlags[] = {
    {"label-prefix", [](HelperFlags& flags) -> std::string& { return flags.policy.label_prefix; }},
    {"log-level", [](HelperFlags& flags) -> std::string& { return flags.log_level; }},
    {"log-format", [](HelperFlags& flags) -> std::string& { return flags.log_format; }},
};

constexpr const char* kMostMemory = "most-memory";

// In the order of the tables, with the flag for memory at the end: SetFlag counts on it.
std::vector<option> Options() {
  std::vector<option> options;
  for (const ListFlag& flag : kListFlags) options.push_back({flag.name, required_argument, nullptr, 0});
  for (const TextFlag& flag : kTextFlags) options.push_back({flag.name, required_argument, nullptr, 0});
  options.push_back({kMostMemory, required_argument, nullptr, 0});
  options.push_back({});
  return options;
}

void SetFlag(HelperFlags& flags, std::size_t index, const char* value) {
  constexpr std::size_t kLists = std::size(kListFlags);
  if (index < kLists) {
    (flags.policy.*kListFlags[index].list).emplace_back(value);
  } else if (index < kLists + std::size(kTextFlags)) {
    kTextFlags[index - kLists].text(flags) = value;
  } else {
    flags.policy.most_memory = ParseWhole<std::uint64_t>(value).value_or(0);  // 0 allows no tmpfs
  }
}

}  // namespace

std::vector<std::string> ArgumentsOf(HelperFlags flags) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* name, const std::string& value) {
    arguments.insert(arguments.end(), {fmt::format("--{}", name), value});
  };
  for (const ListFlag& flag : kListFlags) {
    for (const std::string& value : flags.policy.*flag.list) add(flag.name, value);
  }
  for (const TextFlag& flag : kTextFlags) add(flag.name, flag.text(flags));
  add(kMostMemory, fmt::format("{}", flags.policy.most_memory));
  return arguments;
}

absl::StatusOr<HelperFlags> ParseHelperFlags(int argc, char** argv) {
  const std::vector<option> options = Options();
  HelperFlags flags;
  ::opterr = 0;
  ::optind = 0;  // getopt(3) starts from the beginning, even after an earlier use
  int index = 0;
  for (int found = 0; (found = ::getopt_long(argc, argv, "", options.data(), &index)) != -1;) {
    if (found == '?') return InvalidArgument("a flag of mooring-mounter is unknown, or has no value");
    SetFlag(flags, static_cast<std::size_t>(index), ::optarg);
  }
  if (::optind == argc && !flags.policy.roots.empty() && !flags.policy.label_prefix.empty()) return flags;
  return InvalidArgument(
      "mooring-mounter is started by mooring-plugin, which passes --mount-root and other flags; to mount by hand, use: "
      "mooring mount");
}

}  // namespace mooring

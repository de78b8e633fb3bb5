#include "mounter/mount_words.h"

#include <libmount/libmount.h>
#include <sys/mount.h>

#include <cstdlib>
#include <optional>

namespace mooring {
namespace {

// The words of libmount's list that make it mount something else: a loop device, a verity device, another program.
constexpr unsigned long kNotForOthers =
    ~static_cast<unsigned long>(MNT_MS_NOAUTO | MNT_MS_USER | MNT_MS_USERS | MNT_MS_OWNER | MNT_MS_GROUP |
                                MNT_MS_NETDEV | MNT_MS_COMMENT | MNT_MS_NOFAIL | MNT_MS_XCOMMENT | MNT_MS_XFSTABCOMM);

// The flags of a word in a list of libmount. Empty: it is not in the list.
std::optional<unsigned long> FlagsIn(int list, const std::string& word) {
  const libmnt_optmap* const map = mnt_get_builtin_optmap(list);
  char* known = nullptr;
  unsigned long flags = 0;
  const bool failed =
      mnt_optstr_get_options(word.c_str(), &known, map, 0) != 0 || mnt_optstr_get_flags(word.c_str(), &flags, map) != 0;
  const bool is_known = !failed && known != nullptr && word == known;
  std::free(known);  // NOLINT(cppcoreguidelines-no-malloc): libmount allocates with malloc
  return is_known ? std::optional<unsigned long>(flags) : std::nullopt;
}

}  // namespace

std::vector<std::string> SplitMountWords(std::string_view words) {
  std::vector<std::string> split(1);
  bool is_quoted = false;
  for (const char c : words) {
    if (c == '"') is_quoted = !is_quoted;
    if (c == ',' && !is_quoted) {
      split.emplace_back();
    } else {
      split.back() += c;
    }
  }
  return split;
}

bool IsForOthers(const std::string& word) {
  // mount(8) changes the mount by these: a subdirectory, an owner. The directory is made anyway.
  if (word.starts_with("X-mount.") && !word.starts_with("X-mount.mkdir")) return false;
  const std::optional<unsigned long> flags = FlagsIn(MNT_USERSPACE_MAP, word);
  return flags && (*flags & kNotForOthers) == 0;
}

bool IsAnotherOrder(const std::string& word) {
  constexpr unsigned long kOrders =
      MS_REMOUNT | MS_BIND | MS_MOVE | MS_REC | MS_SHARED | MS_SLAVE | MS_PRIVATE | MS_UNBINDABLE;
  const std::optional<unsigned long> flags = FlagsIn(MNT_LINUX_MAP, word);
  if (flags && (*flags & kOrders) != 0) return true;
  return FlagsIn(MNT_USERSPACE_MAP, word) && !IsForOthers(word);
}

}  // namespace mooring

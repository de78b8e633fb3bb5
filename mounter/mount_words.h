// The words of mount options as fstab(5) and orchestrators write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mounter/mount_flags.h"

namespace mooring {

// "ro,context=\"a:b:s0:c1,c2\"" has two words: a comma in double quotes separates nothing. Empty words are kept.
std::vector<std::string> SplitMountWords(std::string_view words);

// Whether the word is for mount(8), systemd or other readers of fstab, and so means nothing to a filesystem: "_netdev",
// "nofail", "noauto", "nouser", "x-systemd.automount", "comment=…". The list is that of libmount.
bool IsForOthers(const std::string& word);

// Whether the word would make mount(8) do something else than mount a filesystem: "bind", "remount", "private", "loop",
// "helper=…", "X-mount.owner=…". The list is that of libmount.
bool IsAnotherOrder(const std::string& word);

}  // namespace mooring

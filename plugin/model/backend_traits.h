// The kinds of backends, and what each can do. docs/backends.md explains them to users.
#ifndef MOORING_PLUGIN_MODEL_BACKEND_TRAITS_H_
#define MOORING_PLUGIN_MODEL_BACKEND_TRAITS_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace mooring {

// The pool of volumes that name none, and of those made before pools existed.
inline constexpr std::string_view kDefaultPool = "default";

enum class BackendKind {
  kImage,      // an image file and a loop device
  kDirectory,  // a directory, bind mounted
  kDevice,     // a block device that exists
  kTmpfs,      // memory, from the first stage to the last unstage
};

// docs/backends.md shows this as a table, and a test holds the two together.
struct BackendTraits {
  bool block = false;                      // raw block volumes
  bool snapshots = false;                  // alone and in groups; allocated and changed blocks of them
  bool clones = false;                     // volumes from snapshots and from volumes
  bool grows = false;                      // ControllerExpandVolume
  bool enforces_size = false;              // a volume cannot hold more than it was made for
  bool keeps_data = false;                 // over unstage and reboot
  bool tunes = false;                      // the mutable parameters of a device
  std::vector<std::string> fs_types = {};  // that a volume can ask for; none: there is nothing to choose
};

const BackendTraits& TraitsOf(BackendKind kind);

std::string_view ToString(BackendKind kind);  // "image": as in --pool

// What stands for the filesystem of a volume that names none: where there is nothing to choose, the backend's name.
std::string_view DefaultFsTypeOf(BackendKind kind);

// A device that was a volume's when it was last seen, in this boot.
struct KnownDevice {
  std::string volume_id;
  dev_t number = 0;
  std::string node;  // "/dev/sdb"
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_BACKEND_TRAITS_H_

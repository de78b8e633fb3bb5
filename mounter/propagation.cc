#include "mounter/propagation.h"

#include <sys/mount.h>

#include <array>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

struct Word {
  std::string_view text;
  Propagation propagation;
};

constexpr std::array<Word, 12> kWords = {{
    {"inherit", Propagation::kInherit},
    {"private", Propagation::kPrivate},
    {"rprivate", Propagation::kPrivate},
    {"None", Propagation::kPrivate},
    {"slave", Propagation::kSlave},
    {"rslave", Propagation::kSlave},
    {"host-to-task", Propagation::kSlave},
    {"HostToContainer", Propagation::kSlave},
    {"shared", Propagation::kShared},
    {"rshared", Propagation::kShared},
    {"bidirectional", Propagation::kShared},
    {"Bidirectional", Propagation::kShared},
}};

}  // namespace

absl::StatusOr<Propagation> ParsePropagation(std::string_view word) {
  for (const Word& known : kWords) {
    if (known.text == word) return known.propagation;
  }
  return InvalidArgument("propagation {} is unknown: it is one of inherit, {}", Quote(word, 32), kPropagationWords);
}

unsigned long MountBitsOf(Propagation propagation) {
  switch (propagation) {
    case Propagation::kInherit:
      return 0;
    case Propagation::kPrivate:
      return MS_PRIVATE;
    case Propagation::kSlave:
      return MS_SLAVE;
    case Propagation::kShared:
      return MS_SHARED;
  }
  return 0;
}

std::string_view ToString(Propagation propagation) {
  switch (propagation) {
    case Propagation::kInherit:
      return "inherit";
    case Propagation::kPrivate:
      return "private";
    case Propagation::kSlave:
      return "rslave";
    case Propagation::kShared:
      return "rshared";
  }
  return "inherit";
}

}  // namespace mooring

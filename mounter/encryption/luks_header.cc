#include "mounter/encryption/luks_header.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring {
namespace {

constexpr off_t kSecondAt = 16384;  // the size of the first copy, cryptsetup's default
constexpr std::size_t kUuidAt = 168, kUuidBytes = 40;
constexpr std::size_t kSubsystemAt = 208, kSubsystemBytes = 48;
constexpr std::size_t kBytes = kSubsystemAt + kSubsystemBytes;

constexpr std::string_view kFinished = "mooring", kRaw = "mooring-raw";

struct Copy {
  std::string uuid, subsystem;
};

// Empty: there is none.
absl::StatusOr<std::optional<Copy>> ReadCopy(int file, const std::string& path, off_t at, std::string_view magic) {
  std::array<char, kBytes> bytes = {};
  const ssize_t got = ::pread(file, bytes.data(), bytes.size(), at);
  if (got < 0) return ErrnoStatus(errno, "read the header of", path);
  const std::string_view text(bytes.data(), static_cast<std::size_t>(got));
  if (text.size() < bytes.size() || !text.starts_with(magic)) return std::optional<Copy>();
  const auto field = [&text](std::size_t begin, std::size_t most) {
    const std::string_view all = text.substr(begin, most);
    return std::string(all.substr(0, all.find('\0')));
  };
  return Copy{.uuid = field(kUuidAt, kUuidBytes), .subsystem = field(kSubsystemAt, kSubsystemBytes)};
}

}  // namespace

absl::StatusOr<LuksHeader> ReadLuksHeader(int file, const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::optional<Copy> first, ReadCopy(file, path, 0, kFirstMagic));
  MOORING_ASSIGN_OR_RETURN(const std::optional<Copy> second, ReadCopy(file, path, kSecondAt, kSecondMagic));
  if (!first && !second) {
    return absl::DataLossError("there is no LUKS2 header in " + Quote(path) +
                               ": restore the header from its backup (cryptsetup luksHeaderRestore), or the image. It "
                               "is never made again, because that would destroy the data");
  }
  const Copy& one = first ? *first : *second;
  const Copy& other = second ? *second : *first;
  const bool raw_in_one = one.subsystem == kRaw, raw_in_other = other.subsystem == kRaw;
  const auto is_finished = [](const Copy& copy) { return copy.subsystem == kFinished || copy.subsystem == kRaw; };
  return LuksHeader{.uuid = one.uuid,
                    .state = {.is_finished = is_finished(one) && is_finished(other) && one.uuid == other.uuid,
                              .is_raw = raw_in_one || raw_in_other},
                    .has_both_notes = raw_in_one && raw_in_other,
                    .is_second_alone = !first};
}

std::string SubsystemFor(const EncryptedState& state) {
  if (!state.is_finished) return "";
  return std::string(state.is_raw ? kRaw : kFinished);
}

}  // namespace mooring

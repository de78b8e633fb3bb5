#include "mounter/encryption/sealed_header.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text/quote.h"
#include "base/text/whole_number.h"
#include "mounter/encrypted_volumes.h"
#include "mounter/encryption/luks_header.h"

namespace mooring {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kCopyBytes = 16384, kTextAt = 4096, kSizeAt = 8;

// Where cryptsetup looks for the second copy if it finds no good one before.
constexpr std::array<std::uint64_t, 8> kOtherPlaces = {0x8000,  0x10000,  0x20000,  0x40000,
                                                       0x80000, 0x100000, 0x200000, 0x400000};

constexpr std::string_view kCipher = "aes-xts-plain64";
constexpr std::uint64_t kKeyBytes = 64, kStripes = 4000;
constexpr std::uint64_t kBlock = 4096;  // cryptsetup aligns what it makes
constexpr std::uint64_t kMostAreaBytes = std::uint64_t{1} << 20U;

// For the derivation of a key. cryptsetup uses at most 1 GiB and 4 threads, unless it is told otherwise.
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 20U;  // KiB
constexpr std::uint64_t kMostWork = 64 * kMostMemory;           // KiB times passes, of all key slots together
constexpr std::uint64_t kMostThreads = 4, kMostIterations = 50'000'000, kMostOfDigest = 10'000'000;
constexpr std::size_t kMostSlots = 8, kMostDigests = 2;
constexpr std::string_view kTooCostly =
    "the derivation of its keys takes more memory or time than is allowed (1 GiB; memory times passes: 64 GiB in all): "
    "change it, as the passphrase is changed (docs/backends.md)";

absl::Status Differs(std::string_view what) { return FailedPrecondition("{}", what); }

bool HasOnly(const Json& object, std::initializer_list<std::string_view> keys) {
  if (!object.is_object()) return false;
  for (const auto& item : object.items()) {
    if (std::find(keys.begin(), keys.end(), item.key()) == keys.end()) return false;
  }
  return true;
}

const Json& At(const Json& object, const char* key) {
  static const Json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

bool Is(const Json& object, const char* key, std::string_view text) {
  const Json& value = At(object, key);
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

bool IsAtMost(const Json& object, const char* key, std::uint64_t most) {
  const Json& value = At(object, key);
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= most;
}

bool Is(const Json& object, const char* key, std::uint64_t number) {
  return IsAtMost(object, key, number) && At(object, key).get<std::uint64_t>() == number;
}

std::uint64_t OffsetIn(const Json& object, const char* key) {
  const Json& value = At(object, key);
  const auto number = value.is_string() ? ParseWhole<std::uint64_t>(value.get<std::string>()) : std::nullopt;
  return number.value_or(UINT64_MAX);
}

absl::Status CheckSegment(const Json& segments) {
  const Json& segment = At(segments, "0");
  const bool is_ours = HasOnly(segments, {"0"}) &&
                       HasOnly(segment, {"type", "offset", "size", "iv_tweak", "encryption", "sector_size"}) &&
                       Is(segment, "type", "crypt") && Is(segment, "encryption", kCipher) &&
                       Is(segment, "size", "dynamic") && Is(segment, "iv_tweak", "0") &&
                       OffsetIn(segment, "offset") == kEncryptionHeader &&
                       Is(segment, "sector_size", kEncryptionSector);
  return is_ours ? absl::OkStatus() : Differs("its segment is not as CreateVolume makes it");
}

// Returns the work.
absl::StatusOr<std::uint64_t> CheckDerivation(const Json& kdf) {
  std::uint64_t work = 0;
  bool is_within = false;
  if (Is(kdf, "type", "argon2id") || Is(kdf, "type", "argon2i")) {
    is_within =
        IsAtMost(kdf, "memory", kMostMemory) && IsAtMost(kdf, "time", kMostWork) && IsAtMost(kdf, "cpus", kMostThreads);
    if (is_within) work = At(kdf, "memory").get<std::uint64_t>() * At(kdf, "time").get<std::uint64_t>();
  } else if (Is(kdf, "type", "pbkdf2")) {
    is_within = IsAtMost(kdf, "iterations", kMostIterations);
  }
  if (is_within) return work;
  return Differs(kTooCostly);
}

absl::StatusOr<KeyArea> CheckKeySlot(const Json& slot, std::uint64_t& work) {
  const Json& area = At(slot, "area");
  const Json& stripes = At(slot, "af");
  const KeyArea place = {.begin = OffsetIn(area, "offset"), .size = OffsetIn(area, "size")};
  const bool is_ours = HasOnly(slot, {"type", "key_size", "af", "area", "kdf", "priority"}) &&
                       Is(slot, "type", "luks2") && Is(slot, "key_size", kKeyBytes) && Is(area, "type", "raw") &&
                       Is(area, "encryption", kCipher) && Is(area, "key_size", kKeyBytes) &&
                       Is(stripes, "type", "luks1") && Is(stripes, "stripes", kStripes) &&
                       place.size <= kMostAreaBytes && place.begin >= 2 * kCopyBytes && place.begin % kBlock == 0 &&
                       place.size % kBlock == 0 && place.begin <= kEncryptionHeader - kMostAreaBytes;
  if (!is_ours) return Differs("a key slot is not as cryptsetup makes it for Mooring's cipher");
  MOORING_ASSIGN_OR_RETURN(const std::uint64_t own, CheckDerivation(At(slot, "kdf")));
  work += own;
  return work <= kMostWork ? absl::StatusOr<KeyArea>(place) : Differs(kTooCostly);
}

absl::Status CheckDigests(const Json& digests) {
  const bool are_within = digests.is_object() && digests.size() <= kMostDigests &&
                          std::all_of(digests.begin(), digests.end(), [](const Json& digest) {
                            return Is(digest, "type", "pbkdf2") && IsAtMost(digest, "iterations", kMostOfDigest);
                          });
  return are_within ? absl::OkStatus() : Differs("a digest takes more time than is allowed");
}

// A copy, if it is one of Mooring's, and its keys.
struct HeaderCopy {
  std::string_view bytes;
  std::vector<KeyArea> keys;
};

absl::StatusOr<HeaderCopy> CheckCopy(std::string_view bytes, std::string_view magic) {
  constexpr std::string_view kSize("\0\0\0\0\0\0\x40\0", 8);  // kCopyBytes, big-endian
  if (!bytes.starts_with(magic)) return Differs("it is damaged");
  if (bytes.substr(kSizeAt, kSize.size()) != kSize) return Differs("its size is another");
  const std::string_view text = bytes.substr(kTextAt);
  MOORING_ASSIGN_OR_RETURN(std::vector<KeyArea> keys, KeyAreasOf(text.substr(0, text.find('\0'))));
  return HeaderCopy{.bytes = bytes, .keys = std::move(keys)};
}

absl::Status CopyBytes(const LockedImage& carrier, const UniqueFd& to, const KeyArea& area) {
  std::string bytes(area.size, '\0');
  const ssize_t got = ::pread(carrier.fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(area.begin));
  if (got < 0) return ErrnoStatus(errno, "read the header of", carrier.path);
  const ssize_t done = ::pwrite(to.get(), bytes.data(), static_cast<std::size_t>(got), static_cast<off_t>(area.begin));
  return done == got ? absl::OkStatus() : ErrnoStatus(done < 0 ? errno : EIO, "copy the header of", carrier.path);
}

// Asks the copy as it is: two key areas may meet in the middle of a mark.
absl::Status CheckNoOtherCopy(const LockedImage& carrier, const UniqueFd& header) {
  for (const std::uint64_t place : kOtherPlaces) {
    std::array<char, kSecondMagic.size()> mark = {};
    const ssize_t got = ::pread(header.get(), mark.data(), mark.size(), static_cast<off_t>(place));
    if (got < 0) return ErrnoStatus(errno, "read the copy of the header of", carrier.path);
    if (std::string_view(mark.data(), mark.size()) != kSecondMagic) continue;
    return FailedPrecondition("the header in {} is not opened: there is another header in its keys",
                              Quote(carrier.path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<KeyArea>> KeyAreasOf(std::string_view json) {
  // json-c, which cryptsetup uses, and this parser may differ in what an escape is.
  for (std::size_t at = json.find('\\'); at != std::string_view::npos; at = json.find('\\', at + 1)) {
    if (json.substr(at, 2) != "\\/") return Differs("its text has an escape");
  }
  const Json header = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!HasOnly(header, {"keyslots", "tokens", "segments", "digests", "config"})) return Differs("it is no header");
  if (!At(header, "tokens").is_object() || !At(header, "tokens").empty()) return Differs("it has tokens: remove them");
  if (!HasOnly(At(header, "config"), {"json_size", "keyslots_size", "flags"})) {
    return Differs("a change of it is under way, or it needs a later cryptsetup");
  }
  MOORING_RETURN_IF_ERROR(CheckSegment(At(header, "segments")));
  MOORING_RETURN_IF_ERROR(CheckDigests(At(header, "digests")));
  const Json& slots = At(header, "keyslots");
  if (!slots.is_object() || slots.size() > kMostSlots) return Differs("it has no key slots, or more than eight");
  std::uint64_t work = 0;
  std::vector<KeyArea> areas;
  for (const Json& slot : slots) {
    MOORING_ASSIGN_OR_RETURN(areas.emplace_back(), CheckKeySlot(slot, work));
  }
  return areas;
}

absl::StatusOr<UniqueFd> SealedHeader(const LockedImage& carrier) {
  std::string bytes(2 * kCopyBytes, '\0');
  if (::pread(carrier.fd.get(), bytes.data(), bytes.size(), 0) < 0) {
    return ErrnoStatus(errno, "read the header of", carrier.path);
  }
  const std::string_view all = bytes;
  const absl::StatusOr<HeaderCopy> first = CheckCopy(all.substr(0, kCopyBytes), kFirstMagic);
  const absl::StatusOr<HeaderCopy> second = CheckCopy(all.substr(kCopyBytes), kSecondMagic);
  if (!first.ok() && !second.ok()) {
    return FailedPrecondition("the header in {} is not opened: {}; its second copy: {}", Quote(carrier.path),
                              Message(first.status()), Message(second.status()));
  }
  UniqueFd header(::memfd_create("header", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!header.ok() || ::ftruncate(header.get(), static_cast<off_t>(kEncryptionHeader)) != 0) {
    return ErrnoStatus(errno, "make a file in memory for the header of", carrier.path);
  }
  for (const absl::StatusOr<HeaderCopy>* const copy : {&first, &second}) {
    if (!copy->ok()) continue;
    const std::string_view text = (*copy)->bytes;
    const ssize_t done = ::pwrite(header.get(), text.data(), text.size(), text.data() - all.data());
    if (done != static_cast<ssize_t>(text.size())) return ErrnoStatus(errno, "copy the header of", carrier.path);
    for (const KeyArea& area : (*copy)->keys) MOORING_RETURN_IF_ERROR(CopyBytes(carrier, header, area));
  }
  MOORING_RETURN_IF_ERROR(CheckNoOtherCopy(carrier, header));
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (::fcntl(header.get(), F_ADD_SEALS, kSeals) == 0) return header;
  return ErrnoStatus(errno, "seal the header of", carrier.path);
}

}  // namespace mooring

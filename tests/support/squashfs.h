// A squashfs that needs no program to be made. Sysfs does not show that one is mounted, so it stands for all
// filesystems beside ext4, xfs and btrfs.
#pragma once

#include <cstdint>
#include <string>

namespace mooring::testing {

namespace squashfs_internal {

template <typename... Numbers>
std::string Little(Numbers... numbers) {
  std::string bytes;
  const auto add = [&bytes](auto number) {
    for (std::size_t byte = 0; byte < sizeof(number); ++byte) bytes += static_cast<char>(number >> (8 * byte));
  };
  (add(numbers), ...);
  return bytes;
}

// Not compressed.
inline std::string Block(const std::string& bytes) {
  return Little(static_cast<std::uint16_t>(bytes.size() | 0x8000U)) + bytes;
}

}  // namespace squashfs_internal

// 1 MiB: a root directory with one small file. Documentation/filesystems/squashfs.rst of the kernel has the layout.
inline std::string SquashfsWith(const std::string& name, const std::string& text) {
  using squashfs_internal::Block;
  using squashfs_internal::Little;
  using U16 = std::uint16_t;
  using U32 = std::uint32_t;
  using U64 = std::uint64_t;
  constexpr std::size_t kSuper = 96, kImage = std::size_t{1} << 20U;
  const auto bytes = static_cast<U32>(text.size());
  const std::string file = Little(U16{2}, U16{0644}, U16{0}, U16{0}, U32{0}, U32{1}) +
                           Little(U32{kSuper}, ~U32{0}, U32{0}, bytes, bytes | U32{1} << 24U);
  const std::string entries =
      Little(U32{0}, U32{0}, U32{1}) + Little(U16{0}, U16{0}, U16{2}, static_cast<U16>(name.size() - 1)) + name;
  const std::string directory = Little(U16{1}, U16{0755}, U16{0}, U16{0}, U32{0}, U32{2}) +
                                Little(U32{0}, U32{2}, static_cast<U16>(entries.size() + 3), U16{0}, U32{3});
  const std::string inodes = Block(file + directory), names = Block(entries), ids = Block(Little(U32{0}));
  const U64 inodes_at = kSuper + text.size(), names_at = inodes_at + inodes.size(), ids_at = names_at + names.size();
  const U64 index_at = ids_at + ids.size(), end = index_at + sizeof(U64);
  constexpr U16 kZlib = 1, kBlockLog = 17, kNothingIsCompressed = 0x21b;
  const std::string super = Little(U32{0x73717368}, U32{2}, U32{0}, U32{1} << kBlockLog, U32{0}) +
                            Little(kZlib, kBlockLog, kNothingIsCompressed, U16{1}, U16{4}, U16{0}) +
                            Little(U64{file.size()}, end, index_at, ~U64{0}, inodes_at, names_at, ~U64{0}, ~U64{0});
  std::string image = super + text + inodes + names + ids + Little(ids_at);
  image.resize(kImage);
  return image;
}

}  // namespace mooring::testing

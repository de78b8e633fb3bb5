// The headers of encrypted volumes on image files. Their mappings need a kernel with the device mapper: tests/vm.
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "mounter/encryption/cryptsetup.h"
#include "mounter/encryption/luks_header.h"
#include "mounter/encryption/volume_calls.h"
#include "tests/kernel/kernel_test.h"

namespace mooring::testing {
namespace {

constexpr char kId[] = "vol-0123456789abcdef0123456789abcdef", kOtherId[] = "vol-ffff456789abcdef0123456789abcdef";
constexpr char kUuid[] = "01234567-89ab-cdef-0123-456789abcdef";
constexpr char kPassphrase[] = "correct horse battery staple";

class LuksTest : public KernelTest {
 protected:
  void SetUp() override {
    image_ = Path("carrier.img");
    ASSERT_EQ(Tool("truncate -s 64M " + image_), 0);
  }

  // A header as that of a finished volume. All but the last step is what MakeEncrypted does.
  void MakeHeader() {
    const LockedImage carrier = Lock();
    ASSERT_OK(Cryptsetup(carrier).Format(kUuid, kPassphrase));
    ASSERT_OK(Cryptsetup(carrier).SetSubsystem(SubsystemFor({.is_finished = true})));
  }
  LockedImage Lock() {
    absl::StatusOr<LockedImage> carrier = LockImage(image_);
    EXPECT_OK(carrier);
    return *std::move(carrier);
  }
  absl::StatusOr<EncryptedState> Report(const std::string& id = kId) {
    return ReportEncryptedVolume({.carrier = image_, .id = id}, kEverySource);
  }
  absl::Status Open(const std::string& id = kId, const std::string& passphrase = kPassphrase) {
    return OpenEncryptedVolume({.volume = {image_, id}, .passphrase = passphrase, .label = "mooring:test"},
                               kEverySource)
        .status();
  }
  std::string HashOfImage() {
    EXPECT_EQ(Tool(fmt::format("sha256sum {} >{}", image_, Path("hash"))), 0);
    return ReadFile(Path("hash"));
  }
  std::string Dump() {
    EXPECT_EQ(Tool(fmt::format("cryptsetup luksDump {} >{}", image_, Path("dump"))), 0);
    return ReadFile(Path("dump"));
  }
  std::string image_;
};

TEST_F(LuksTest, TheHeaderIsTheOneThatCryptsetupShows) {
  MakeHeader();
  const std::string dump = Dump();
  for (const char* const line :
       {"Version:       \t2\n", "UUID:          \t01234567-89ab-cdef-0123-456789abcdef\n", "offset: 16777216 [bytes]",
        "cipher: aes-xts-plain64", "sector: 4096 [bytes]", "PBKDF:      argon2id", "Memory:     32768", "Threads:    1",
        "Time cost:  4", "Subsystem:     \tmooring\n"}) {
    EXPECT_THAT(dump, ::testing::HasSubstr(line));
  }
  const auto state = Report();
  ASSERT_OK(state);
  EXPECT_TRUE(state->is_finished);
  EXPECT_FALSE(state->is_raw);
}

TEST_F(LuksTest, OnlyTheRightPassphraseFits) {
  MakeHeader();
  const std::string before = HashOfImage();
  const LockedImage carrier = Lock();
  EXPECT_OK(Cryptsetup(carrier).CheckPassphrase(kPassphrase));
  for (const std::string& wrong : {std::string("wrong"), std::string(kPassphrase) + "\n", std::string(512, 'x')}) {
    EXPECT_THAT(Cryptsetup(carrier).CheckPassphrase(wrong),
                FailsWith(absl::StatusCode::kUnauthenticated, "the passphrase is not that of the volume"));
  }
  EXPECT_EQ(HashOfImage(), before);
}

TEST_F(LuksTest, ARawUseIsNotedInTheHeader) {
  MakeHeader();
  ASSERT_OK(NoteRawEncryptedVolume({.carrier = image_, .id = kId}, kEverySource));
  EXPECT_TRUE(Report()->is_raw);
  EXPECT_TRUE(Report()->is_finished);
  EXPECT_OK(Cryptsetup(Lock()).CheckPassphrase(kPassphrase));
}

TEST_F(LuksTest, AnUnfinishedVolumeIsNotOpened) {
  ASSERT_OK(Cryptsetup(Lock()).Format(kUuid, kPassphrase));
  EXPECT_FALSE(Report()->is_finished);
  EXPECT_THAT(Open(), FailsWith(absl::StatusCode::kInternal, "is not complete"));
}

TEST_F(LuksTest, WithoutItsHeaderAVolumeIsNeitherOpenedNorChanged) {
  const std::string before = HashOfImage();
  const auto is_lost = FailsWith(absl::StatusCode::kDataLoss, "luksHeaderRestore");
  EXPECT_THAT(Open(), is_lost);
  EXPECT_THAT(Report(), is_lost);
  EXPECT_THAT(NoteRawEncryptedVolume({.carrier = image_, .id = kId}, kEverySource), is_lost);
  EXPECT_EQ(HashOfImage(), before);
}

TEST_F(LuksTest, WithTheHeaderOfAnotherVolumeItIsNeitherOpenedNorChanged) {
  MakeHeader();
  const std::string before = HashOfImage();
  const auto is_other = FailsWith(absl::StatusCode::kDataLoss, "the header of another volume");
  EXPECT_THAT(Open(kOtherId), is_other);
  EXPECT_THAT(Report(kOtherId), is_other);
  EXPECT_THAT(
      MakeEncryptedVolume({.volume = {image_, kId}, .passphrase = kPassphrase, .source = kOtherId}, kEverySource),
      ::testing::Not(IsOk()));
  EXPECT_EQ(HashOfImage(), before);
}

TEST_F(LuksTest, TheSecondCopyOfTheHeaderServesWhileTheFirstIsDamaged) {
  MakeHeader();
  ASSERT_EQ(Tool(fmt::format("dd if=/dev/zero of={} bs=4096 count=4 conv=notrunc status=none", image_)), 0);
  EXPECT_OK(Report());
  EXPECT_OK(Cryptsetup(Lock()).CheckPassphrase(kPassphrase));
  EXPECT_EQ(Tool("cryptsetup repair --batch-mode " + image_), 0);
  EXPECT_THAT(ReadFile(image_).substr(0, 4), "LUKS");
  EXPECT_OK(Report());
}

// A cryptsetup that writes down all that it gets but its key file.
TEST_F(LuksTest, ThePassphraseIsNeitherAnArgumentNorInTheEnvironment) {
  const std::string program = Path("cryptsetup");
  std::ofstream(program) << fmt::format("#!/bin/sh\n{{ echo \"$@\"; env; }} >>{}\ncat <&4 >{}\n", Path("seen"),
                                        Path("key"));
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", (Path("") + ":" + path).c_str(), 1);
  const LockedImage carrier = Lock();
  EXPECT_OK(Cryptsetup(carrier).Format(kUuid, kPassphrase));
  EXPECT_OK(Cryptsetup(carrier).CheckPassphrase(kPassphrase));
  EXPECT_OK(Cryptsetup(carrier).Open("/dev/null", UniqueFd(), "mooring-test", kPassphrase));
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(ReadFile(Path("key")), kPassphrase) << "the program got the passphrase";
  EXPECT_THAT(ReadFile(Path("seen")), ::testing::HasSubstr("--test-passphrase"));
  EXPECT_THAT(ReadFile(Path("seen")), ::testing::Not(::testing::HasSubstr("horse")));
}

}  // namespace
}  // namespace mooring::testing

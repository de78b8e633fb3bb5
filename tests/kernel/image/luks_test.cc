// The headers of encrypted volumes on image files. Their mappings need a kernel with the device mapper: tests/vm.
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "mounter/encryption/cryptsetup.h"
#include "mounter/encryption/luks_header.h"
#include "mounter/encryption/sealed_header.h"
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

// The header that the plugin wrote last is not the one that was checked.
TEST_F(LuksTest, TheHeaderThatCryptsetupReadsCannotBeChanged) {
  MakeHeader();
  const LockedImage carrier = Lock();
  const auto header = SealedHeader(carrier);
  ASSERT_OK(header);
  EXPECT_EQ(::pwrite(header->get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(header->get(), 0), -1);
  ASSERT_EQ(Tool(fmt::format("dd if=/dev/zero of={} bs=4096 count=8 conv=notrunc status=none", image_)), 0);
  const auto copy = ReadLuksHeader(header->get(), "copy");
  ASSERT_OK(copy);
  EXPECT_EQ(copy->uuid, kUuid);
}

// As a plugin in the hands of an attacker would write it. The name of a cipher goes into the table of the mapping.
TEST_F(LuksTest, AHeaderThatIsNotMooringsIsNotOpened) {
  MakeHeader();
  const std::string whole = ReadFile(image_).substr(0, 32768);
  const std::string text = whole.substr(4096, whole.find('\0', 4096) - 4096);
  ASSERT_OK(KeyAreasOf(text));
  const auto with = [&](const std::string& old, const std::string& text_now) {
    std::string changed = text;
    const std::size_t at = changed.rfind(old);
    EXPECT_NE(at, std::string::npos) << old;
    return changed.replace(at, old.size(), text_now);
  };
  const std::string cipher = R"("encryption":"aes-xts-plain64")";
  const std::string hostile[] = {
      with(cipher, R"("encryption":"cipher_null-ecb - 0 /dev/sda 0 0")"),
      with(cipher, R"("encryption":"aes-xts-plain64","integrity":{"type":"hmac-sha256"})"),
      with(R"("offset":"16777216")", R"("offset":"0")"),
      with(R"("size":"dynamic")", R"("size":"4096")"),
      with(R"("segments":{)", R"("segments":{"1":{"type":"crypt"},)"),
      with(R"("tokens":{})", R"("tokens":{"0":{"type":"systemd-tpm2","keyslots":["0"]}})"),
      with(R"("config":{)", R"("config":{"requirements":{"mandatory":["online-reencrypt-v2"]},)"),
      with(R"("area":{"type":"raw","offset":"32768")", R"("area":{"type":"raw","offset":"0")"),
      with(R"("size":"258048","encryption":"aes-xts-plain64")",
           R"("size":"258048","encryption":"aes-ecb - 0 /dev/sda")"),
      with(R"("size":"258048")", R"("size":"258052")"),
      with(R"("offset":"32768")", R"("offset":"32772")"),
      with(R"("memory":32768)", R"("memory":16777216)"),
      with(R"("time":4,"memory":32768)", R"("time":65,"memory":1048576)"),
      with(R"("time":4)", R"("time":2147483647)"),
      with(R"("time":4)", R"("time":-1)"),
      with(R"("cpus":1)", R"("cpus":1024)"),
      with(R"("iterations":1000)", R"("iterations":4294967295)"),
      with(R"("encryption")", R"("encr\u0079ption")"),
      text.substr(0, text.size() / 2),
      "",
  };
  for (const std::string& one : hostile) {
    EXPECT_THAT(KeyAreasOf(one).status(), FailsWith(absl::StatusCode::kFailedPrecondition, "")) << one;
  }
  for (const std::size_t copy : {std::size_t{4096}, std::size_t{16384 + 4096}}) {
    std::string padded = hostile[0];
    padded.resize(12288, '\0');
    std::fstream file(image_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(copy));
    file << padded;
  }
  EXPECT_THAT(Cryptsetup(Lock()).CheckPassphrase(kPassphrase),
              FailsWith(absl::StatusCode::kFailedPrecondition, "is not opened: its segment is not as CreateVolume"));
}

// As cryptsetup changes passphrases by itself, with up to 1 GiB.
TEST_F(LuksTest, AKeyOfTheUsualCostIsOpened) {
  MakeHeader();
  const std::string whole = ReadFile(image_).substr(0, 32768);
  std::string text = whole.substr(4096, whole.find('\0', 4096) - 4096);
  const std::string cheap = R"("time":4,"memory":32768,"cpus":1)";
  text.replace(text.find(cheap), cheap.size(), R"("time":8,"memory":1048576,"cpus":4)");
  EXPECT_OK(KeyAreasOf(text));
}

// cryptsetup looks for the second copy at several places.
TEST_F(LuksTest, AHeaderAmongTheKeysIsNotOpened) {
  MakeHeader();
  {
    std::fstream file(image_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(0x10000);
    file.write("SKUL\xba\xbe\0\x02", 8);
  }
  EXPECT_THAT(Cryptsetup(Lock()).CheckPassphrase(kPassphrase),
              FailsWith(absl::StatusCode::kFailedPrecondition, "another header in its keys"));
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
  MakeHeader();
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

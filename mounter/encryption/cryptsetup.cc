#include "mounter/encryption/cryptsetup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/file/pipe.h"
#include "base/file/unique_fd.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "mounter/encryption/sealed_header.h"
#include "mounter/process/child_output.h"
#include "mounter/process/command.h"

namespace mooring {
namespace {

using Words = std::vector<std::string>;

constexpr std::chrono::minutes kLimit{2};

// The numbers of the held files in the child: mounter/process/command.h.
constexpr char kCarrier[] = "/proc/self/fd/3", kPassphrase[] = "/proc/self/fd/4", kHeader[] = "/proc/self/fd/5";

// cryptsetup(8), "RETURN CODES".
constexpr int kNoPermission = 2;

// In whole 512-byte sectors.
constexpr std::uint64_t kOffset = kEncryptionHeader / 512;

// libdevmapper makes the nodes itself: in the seccomp list of programs there are no semaphores to wait for udev.
const Words kEnvironment = {"DM_DISABLE_UDEV=1"};

// A passphrase fits into a pipe, so the write does not wait for the reader.
absl::StatusOr<UniqueFd> InPipe(const std::string& passphrase) {
  MOORING_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
  const ssize_t done = ::write(pipe.writer.get(), passphrase.data(), passphrase.size());
  if (done == static_cast<ssize_t>(passphrase.size())) return std::move(pipe.reader);
  return ErrnoStatus(done < 0 ? errno : EIO, "hand a passphrase to cryptsetup");
}

// `kind`: kTool for all that leaves the mappings alone, so that it may be killed.
absl::StatusOr<CommandResult> Run(Words words, const std::vector<int>& held, ProgramKind kind) {
  words.insert(words.begin(), "cryptsetup");
  words.insert(words.end(), {"--batch-mode", "--disable-locks"});
  MOORING_ASSIGN_OR_RETURN(CommandResult result, RunCommand(words, "cryptsetup-bin", kLimit, held, kEnvironment, kind));
  result.output = OneLine(std::move(result.output));
  return result;
}

// Each derivation of a key takes 32 MiB, so two run at a time, and the others wait. A disk that does not answer keeps
// one of the two until its command is killed.
class Turns {
 public:
  // False: none came until then.
  bool Take(std::chrono::steady_clock::time_point until) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool has_come = changed_.wait_until(lock, until, [this] { return free_ > 0; });
    if (has_come) --free_;
    return has_come;
  }
  void Return() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++free_;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int free_ = 2;
};

absl::Status Failure(const std::string& doing, const std::string& path, const CommandResult& result) {
  if (result.WasKilled()) return ProgramWasKilled("cryptsetup", path, result);
  return FailedPrecondition("{} {}: cryptsetup: {}", doing, Quote(path), result.output);
}

absl::Status RunOn(const LockedImage& carrier, const std::string& doing, Words words) {
  MOORING_ASSIGN_OR_RETURN(const CommandResult result, Run(std::move(words), {carrier.fd.get()}, ProgramKind::kTool));
  return result.exit_code == 0 ? absl::OkStatus() : Failure(doing, carrier.path, result);
}

absl::StatusOr<CommandResult> RunWithPassphrase(const LockedImage& carrier, Words words, const std::string& passphrase,
                                                ProgramKind kind, std::vector<int> held = {}) {
  MOORING_ASSIGN_OR_RETURN(const UniqueFd pipe, InPipe(passphrase));
  words.insert(words.end(), {"--key-file", kPassphrase});
  static Turns turns;
  if (!turns.Take(std::chrono::steady_clock::now() + kLimit)) {
    return Aborted("open {}: other encrypted volumes are being opened at this moment: call again", Quote(carrier.path));
  }
  const absl::Cleanup end = [] { turns.Return(); };
  held.insert(held.begin(), {carrier.fd.get(), pipe.get()});
  return Run(std::move(words), held, kind);
}

// It reads the header from a copy. `held`: a further open file for the program, or -1.
absl::Status Unlock(const LockedImage& carrier, const Words& words, const std::string& passphrase, ProgramKind kind,
                    int held = -1) {
  constexpr char kDoing[] = "open";
  MOORING_ASSIGN_OR_RETURN(const UniqueFd header, SealedHeader(carrier));
  MOORING_ASSIGN_OR_RETURN(const CommandResult result,
                           RunWithPassphrase(carrier, words, passphrase, kind, {header.get(), held}));
  if (result.exit_code == 0) return absl::OkStatus();
  if (result.exit_code != kNoPermission) return Failure(kDoing, carrier.path, result);
  return absl::UnauthenticatedError(
      fmt::format("{} {}: the passphrase is not that of the volume", kDoing, Quote(carrier.path)));
}

}  // namespace

absl::Status Cryptsetup::Format(const std::string& uuid, const std::string& passphrase) const {
  const Words words = {"luksFormat",
                       "--type=luks2",
                       "--cipher=aes-xts-plain64",
                       "--key-size=512",
                       fmt::format("--sector-size={}", kEncryptionSector),
                       "--pbkdf=argon2id",
                       "--pbkdf-memory=32768",
                       "--pbkdf-parallel=1",
                       "--pbkdf-force-iterations=4",
                       fmt::format("--offset={}", kOffset),
                       "--uuid=" + uuid,
                       kCarrier};
  MOORING_ASSIGN_OR_RETURN(const CommandResult result,
                           RunWithPassphrase(carrier_, words, passphrase, ProgramKind::kTool));
  return result.exit_code == 0 ? absl::OkStatus() : Failure("encrypt", carrier_.path, result);
}

absl::Status Cryptsetup::SetUuid(const std::string& uuid) const {
  return RunOn(carrier_, "change the UUID of", {"luksUUID", "--uuid=" + uuid, kCarrier});
}

absl::Status Cryptsetup::SetSubsystem(const std::string& subsystem) const {
  return RunOn(carrier_, "change the header of", {"config", "--subsystem=" + subsystem, kCarrier});
}

absl::Status Cryptsetup::CheckPassphrase(const std::string& passphrase) const {
  return Unlock(carrier_, {"open", "--type=luks2", "--test-passphrase", kHeader}, passphrase, ProgramKind::kTool);
}

absl::Status Cryptsetup::Open(const std::string& device, const UniqueFd& held, const std::string& name,
                              const std::string& passphrase) const {
  const Words words = {"open",
                       "--type=luks2",
                       "--disable-keyring",
                       "--perf-no_read_workqueue",
                       "--perf-no_write_workqueue",
                       "--header",
                       kHeader,
                       device,
                       name};
  return Unlock(carrier_, words, passphrase, ProgramKind::kCryptsetup, held.get());
}

absl::Status ResizeByCryptsetup(const std::string& name) {
  MOORING_ASSIGN_OR_RETURN(const CommandResult result,
                           Run({"resize", "--disable-keyring", name}, {}, ProgramKind::kCryptsetup));
  return result.exit_code == 0 ? absl::OkStatus() : Failure("resize the mapping", name, result);
}

}  // namespace mooring

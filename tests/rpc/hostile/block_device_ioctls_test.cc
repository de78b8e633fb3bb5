// A task calls each ioctl(2) of loop devices and of block devices on the device node of its raw block volume. It is a
// writer or a reader, with or without capabilities, in three situations.
//
// The expected answers come from the kernel's source: drivers/block/loop.c (lo_ioctl), block/ioctl.c (blkdev_ioctl,
// blkdev_common_ioctl), Linux 5.14 to 6.18. After each call, whatever it answered:
//   - the node shows neither another volume nor a file of the host that is attached next
//   - a second target of the volume works
//   - the plugin takes everything down, and the volume holds what was written
#include <linux/blkpg.h>
#include <linux/blktrace_api.h>
#include <linux/blkzoned.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/pr.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "tests/rpc/support/rpc_test.h"
#include "tests/support/holders.h"

namespace mooring::testing {
namespace {

constexpr char kSecret[] = "the secret of another volume";
constexpr char kOwn[] = "what this volume holds";

// Answers of a device that is in use, as errno; 0: the call succeeds. Several: kernels or filesystems differ.
using Answers = std::vector<int>;

using Fill = std::function<void(std::vector<char>& argument, int own)>;

struct Row {
  const char* name;
  unsigned long request;
  Answers writer, reader;            // without capabilities
  Answers root_writer, root_reader;  // with all
  // Sets up the argument of the ioctl. `own`: a file of the task, as large as the volume.
  Fill fill = {};
  bool by_value = false;  // the argument is the number that `fill` writes
};

void Zero(std::vector<char>&, int) {}

void FillNumber(std::vector<char>& argument, unsigned long number) {
  argument.assign(sizeof number, 0);
  std::memcpy(argument.data(), &number, sizeof number);
}

const auto kOwnFile = [](std::vector<char>& argument, int own) {
  FillNumber(argument, static_cast<unsigned long>(own));
};

const auto kConfig = [](std::vector<char>& argument, int own) {
  loop_config config = {};
  config.fd = static_cast<unsigned>(own);
  argument.assign(sizeof config, 0);
  std::memcpy(argument.data(), &config, sizeof config);
};

// Another label, another offset, another size, and autoclear.
const auto kStatus64 = [](std::vector<char>& argument, int) {
  loop_info64 status = {};
  std::strcpy(reinterpret_cast<char*>(status.lo_file_name), "mooring:vol-00000000000000000000000000000000");
  status.lo_offset = 4096;
  status.lo_sizelimit = 65536;
  status.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_PARTSCAN;
  argument.assign(sizeof status, 0);
  std::memcpy(argument.data(), &status, sizeof status);
};

const auto kStatus = [](std::vector<char>& argument, int) {
  loop_info status = {};
  std::strcpy(status.lo_name, "mooring:vol-1");
  status.lo_flags = LO_FLAGS_AUTOCLEAR;
  argument.assign(sizeof status, 0);
  std::memcpy(argument.data(), &status, sizeof status);
};

auto Value(unsigned long number) {
  return [number](std::vector<char>& argument, int) { FillNumber(argument, number); };
}

// [start, length] of bytes, at the end of the volume's first MiB: not where the test looks.
const auto kRange = [](std::vector<char>& argument, int) {
  const std::array<std::uint64_t, 2> range = {std::uint64_t{512} << 10U, 4096};
  argument.assign(sizeof range, 0);
  std::memcpy(argument.data(), range.data(), sizeof range);
};

// The same for all tasks; by what the task may do; and by how it opened the device.
Row ForAll(const char* name, unsigned long request, const Answers& answers, const Fill& fill, bool by_value = false) {
  return {name, request, answers, answers, answers, answers, fill, by_value};
}
Row WithSysAdmin(const char* name, unsigned long request, const Answers& without, const Answers& with, const Fill& fill,
                 bool by_value = false) {
  return {name, request, without, without, with, with, fill, by_value};
}
Row WithWriteAccess(const char* name, unsigned long request, const Answers& without, const Answers& with,
                    const Fill& fill, bool by_value = false) {
  return {name, request, with, without, with, without, fill, by_value};
}
Row WithEither(const char* name, unsigned long request, const Answers& without, const Answers& with, const Fill& fill,
               bool by_value = false) {
  return {name, request, with, without, with, with, fill, by_value};
}

const Answers kOk = {0}, kNone = {ENOTTY, EINVAL, EOPNOTSUPP, EPERM, EFAULT, EBADF};

// Each of these may change something, so it is tried on a volume of its own.
std::vector<Row> Changes() {
  return {
      // The device is bound already.
      ForAll("LOOP_SET_FD", LOOP_SET_FD, {EBUSY}, kOwnFile, true),
      ForAll("LOOP_CONFIGURE", LOOP_CONFIGURE, {EBUSY}, kConfig),
      // Only for read-only devices. Needs no capability.
      WithWriteAccess("LOOP_CHANGE_FD", LOOP_CHANGE_FD, kOk, {EINVAL}, kOwnFile, true),
      // Needs nothing. The hold has the device open, so it is marked to go with its last user.
      ForAll("LOOP_CLR_FD", LOOP_CLR_FD, kOk, Value(0), true),
      // CAP_SYS_ADMIN, or write access. EAGAIN: the page cache is in use.
      WithEither("LOOP_SET_STATUS64", LOOP_SET_STATUS64, {EPERM}, {0, EAGAIN}, kStatus64),
      WithEither("LOOP_SET_STATUS", LOOP_SET_STATUS, {EPERM}, {0, EAGAIN}, kStatus),
      WithEither("LOOP_SET_CAPACITY", LOOP_SET_CAPACITY, {EPERM}, kOk, Value(0), true),
      WithEither("LOOP_SET_DIRECT_IO", LOOP_SET_DIRECT_IO, {EPERM}, kOk, Value(0), true),
      WithEither("LOOP_SET_BLOCK_SIZE", LOOP_SET_BLOCK_SIZE, {EPERM, EBUSY}, {0, EAGAIN, EBUSY}, Value(4096), true),
      // The calls of /dev/loop-control, which a task does not have.
      ForAll("LOOP_CTL_ADD", LOOP_CTL_ADD, kNone, Value(9), true),
      ForAll("LOOP_CTL_REMOVE", LOOP_CTL_REMOVE, kNone, Value(9), true),
      ForAll("LOOP_CTL_GET_FREE", LOOP_CTL_GET_FREE, kNone, Value(0), true),
      // CAP_SYS_ADMIN.
      WithSysAdmin("BLKROSET", BLKROSET, {EACCES}, {0, EACCES}, Value(0)),
      WithSysAdmin("BLKFLSBUF", BLKFLSBUF, {EACCES}, kOk, Value(0), true),
      WithSysAdmin("BLKRASET", BLKRASET, {EACCES}, kOk, Value(64), true),
      WithSysAdmin("BLKFRASET", BLKFRASET, {EACCES}, kOk, Value(64), true),
      WithSysAdmin("BLKBSZSET", BLKBSZSET, {EACCES}, {0, EBUSY}, Value(4096)),
      WithSysAdmin("BLKRRPART", BLKRRPART, {EACCES, EINVAL}, {0, EINVAL, EBUSY}, Value(0), true),
      WithSysAdmin("BLKPG", BLKPG, {EACCES, EFAULT}, {EFAULT, EINVAL, EACCES}, Zero),
      // Write access.
      WithWriteAccess("BLKDISCARD", BLKDISCARD, {EBADF, EPERM, EOPNOTSUPP}, {0, EOPNOTSUPP}, kRange),
      WithWriteAccess("BLKSECDISCARD", BLKSECDISCARD, {EBADF, EPERM, EOPNOTSUPP}, {0, EOPNOTSUPP}, kRange),
      WithWriteAccess("BLKZEROOUT", BLKZEROOUT, {EBADF, EPERM, EOPNOTSUPP}, kOk, kRange),
      // Traces, zones and reservations, which the device does not have.
      ForAll("BLKTRACESTART", BLKTRACESTART, kNone, Value(0), true),
      ForAll("BLKTRACESTOP", BLKTRACESTOP, kNone, Value(0), true),
      ForAll("BLKTRACETEARDOWN", BLKTRACETEARDOWN, kNone, Value(0), true),
      ForAll("BLKRESETZONE", BLKRESETZONE, kNone, Zero),
      ForAll("IOC_PR_REGISTER", IOC_PR_REGISTER, kNone, Zero),
      ForAll("IOC_PR_CLEAR", IOC_PR_CLEAR, kNone, Zero),
  };
}

std::vector<Row> Questions() {
  return {
      ForAll("LOOP_GET_STATUS64", LOOP_GET_STATUS64, kOk, Zero),
      ForAll("LOOP_GET_STATUS", LOOP_GET_STATUS, {0, EOVERFLOW}, Zero),
      ForAll("BLKROGET", BLKROGET, kOk, Zero),
      ForAll("BLKGETSIZE", BLKGETSIZE, kOk, Zero),
      ForAll("BLKGETSIZE64", BLKGETSIZE64, kOk, Zero),
      ForAll("BLKRAGET", BLKRAGET, kOk, Zero),
      ForAll("BLKFRAGET", BLKFRAGET, kOk, Zero),
      ForAll("BLKSECTGET", BLKSECTGET, kOk, Zero),
      ForAll("BLKSSZGET", BLKSSZGET, kOk, Zero),
      ForAll("BLKBSZGET", BLKBSZGET, kOk, Zero),
      ForAll("BLKIOMIN", BLKIOMIN, kOk, Zero),
      ForAll("BLKIOOPT", BLKIOOPT, kOk, Zero),
      ForAll("BLKALIGNOFF", BLKALIGNOFF, kOk, Zero),
      ForAll("BLKPBSZGET", BLKPBSZGET, kOk, Zero),
      ForAll("BLKDISCARDZEROES", BLKDISCARDZEROES, kOk, Zero),
      ForAll("BLKROTATIONAL", BLKROTATIONAL, kOk, Zero),
      ForAll("BLKGETNRZONES", BLKGETNRZONES, kOk, Zero),
      ForAll("BLKREPORTZONE", BLKREPORTZONE, kNone, Zero),
  };
}

enum class Situation { kAlone, kBesideAnotherTarget, kAfterThePluginsEnd };

struct Cell {
  Situation situation;
  bool read_only;
  bool capable;
};

std::string NameOfCell(const ::testing::TestParamInfo<Cell>& info) {
  const Cell& cell = info.param;
  const char* const where = cell.situation == Situation::kAlone                 ? "Alone"
                            : cell.situation == Situation::kBesideAnotherTarget ? "BesideAnotherTarget"
                                                                                : "AfterThePluginsEnd";
  return std::string(cell.capable ? "Root" : "") + (cell.read_only ? "Reader" : "Writer") + where;
}

void DropCapabilities() {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> none = {};
  if (::syscall(SYS_capset, &header, none.data()) != 0) ::_exit(254);
}

// A task with the device node. It keeps the node open, calls an ioctl when it is asked to, and reads its device.
class Task {
 public:
  Task(const std::string& node, const Cell& cell, const std::string& own_file) : node_(node) {
    own_.reset(::open(own_file.c_str(), O_RDWR | O_CLOEXEC));
    fd_.reset(::open(node.c_str(), (cell.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC));
    EXPECT_TRUE(own_.ok() && fd_.ok()) << node;
    capable_ = cell.capable;
  }

  // Returns 0 or the errno.
  int Call(const Row& row) const {
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (!capable_) DropCapabilities();
      std::vector<char> argument(4096);
      row.fill(argument, own_.get());
      argument.resize(std::max<std::size_t>(argument.size(), 4096));
      unsigned long value = 0;
      std::memcpy(&value, argument.data(), sizeof value);
      const int result =
          row.by_value ? ::ioctl(fd_.get(), row.request, value) : ::ioctl(fd_.get(), row.request, argument.data());
      ::_exit(result < 0 ? errno : 0);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  }

  void Close() { fd_.reset(); }

  // Whether the text is at the start of the device, through the old descriptor or a new one.
  bool Sees(const std::string& text) const {
    const UniqueFd again(::open(node_.c_str(), O_RDONLY | O_CLOEXEC));
    for (const int fd : {fd_.get(), again.get()}) {
      std::string data(64 << 10, '\0');
      const ssize_t got = ::pread(fd, data.data(), data.size(), 0);
      if (got > 0 && data.substr(0, static_cast<std::size_t>(got)).find(text) != std::string::npos) return true;
    }
    return false;
  }

 private:
  std::string node_;
  UniqueFd own_, fd_;
  bool capable_ = false;
};

class BlockDeviceIoctls : public RpcTest, public ::testing::WithParamInterface<Cell> {
 protected:
  // A file with the secret is attached by another program of the host, and a volume with the secret is published.
  void ExpectNothingElseIsSeen(const Task& task, const std::string& device) {
    const std::string file = dir() / "of-the-host";
    ASSERT_EQ(Shell(fmt::format("truncate -s {} {} && printf '{}' | dd of={} conv=notrunc status=none", kVolumeBytes,
                                file, kSecret, file)),
              0);
    const std::string loop = AttachLoop(file);
    EXPECT_NE(loop, device);
    EXPECT_FALSE(task.Sees(kSecret));
    ASSERT_OK(driver().Publish(other_, Staging(other_), Target("other"), kSharedBlock));
    EXPECT_FALSE(task.Sees(kSecret));
    ASSERT_OK(driver().Unpublish(other_, Target("other")));
    EXPECT_EQ(Shell("losetup -d " + loop), 0);
  }

  void EndContainer() {
    plugin().Kill();
    for (const LoopLine& loop : LoopsHere()) KillHolders(loop.device);
  }

  // The other volume is staged anew, so that it gets the next device.
  void AttachOther() {
    if (other_.empty()) other_ = Created(kSharedBlock);
    ASSERT_OK(driver().Stage(other_, Staging(other_), kSharedBlock));
    ASSERT_OK(driver().Publish(other_, Staging(other_), Target("other"), kSharedBlock));
    ASSERT_EQ(TryWrite(Target("other"), kSecret), 0);
    ASSERT_OK(driver().Unpublish(other_, Target("other")));
  }

  static const Answers& Expected(const Row& row) {
    const Cell& cell = GetParam();
    if (cell.capable) return cell.read_only ? row.root_reader : row.root_writer;
    return cell.read_only ? row.reader : row.writer;
  }

  // The calls of one task.
  void Try(const std::vector<Row>& rows) {
    const Cell& cell = GetParam();
    const std::string id = Created(kSharedBlock);
    ASSERT_OK(driver().Stage(id, Staging(id), kSharedBlock));
    ASSERT_OK(driver().Publish(id, Staging(id), Target("first", id), kSharedBlock));
    ASSERT_EQ(TryWrite(Target("first", id), kOwn), 0);
    ASSERT_OK(driver().Unpublish(id, Target("first", id)));
    const std::string target = Target("task", id), beside = Target("beside", id);
    ASSERT_OK(driver().Publish(id, Staging(id), target, kSharedBlock, cell.read_only));
    if (cell.situation == Situation::kBesideAnotherTarget) {
      ASSERT_OK(driver().Publish(id, Staging(id), beside, kSharedBlock, cell.read_only));
    }
    const std::string device = "/dev/loop" + std::to_string(minor(StatOf(target).st_rdev));
    {
      Task task(target, cell, own_file_);
      if (cell.situation == Situation::kAfterThePluginsEnd) EndContainer();
      for (const Row& row : rows) {
        const int answer = task.Call(row);
        EXPECT_THAT(Expected(row), Contains(answer)) << row.name << ": " << std::strerror(answer);
      }
      task.Close();  // a task needs no open descriptor to come back
      if (cell.situation == Situation::kAfterThePluginsEnd) {
        const std::string loop = AttachLoop(own_file_);
        EXPECT_NE(loop, device);
        EXPECT_EQ(Shell("losetup -d " + loop), 0);
        Start();
      }
      AttachOther();
      ExpectNothingElseIsSeen(task, device);
    }
    if (cell.situation == Situation::kBesideAnotherTarget) ExpectWorks(beside, cell.read_only, rows.front());
    ASSERT_OK(driver().Unstage(other_, Staging(other_)));
    EXPECT_OK(driver().Unpublish(id, beside));
    EXPECT_OK(driver().Unpublish(id, target));
    EXPECT_OK(driver().Unstage(id, Staging(id)));
    EXPECT_TRUE(ReadFile(Image(id)).starts_with(kOwn)) << "what was written is in the file";
    EXPECT_TRUE(Eventually([&] { return LoopsOver(Image(id)).empty(); })) << "the device goes";
    EXPECT_OK(driver().Delete(id));
  }

  // Writers of a volume share its device. A task may change the start of that device for all of them, as it may
  // overwrite the data. The next publish sets it right.
  void ExpectWorks(const std::string& target, bool read_only, const Row& row) {
    if (!read_only && row.request == LOOP_SET_STATUS64) return;
    EXPECT_TRUE(ReadFile(target).starts_with(kOwn));
  }

  void SetUp() override {
    RpcTest::SetUp();
    own_file_ = dir() / "own-file";
    ASSERT_EQ(Shell(fmt::format("truncate -s {} {}", kVolumeBytes, own_file_)), 0);
  }

  std::string own_file_;
  std::string other_;
};

TEST_P(BlockDeviceIoctls, LeadToNoOtherVolume) {
  for (const Row& row : Changes()) {
    SCOPED_TRACE(row.name);
    Try({row});
    if (HasFatalFailure()) return;
  }
  Try(Questions());
}

INSTANTIATE_TEST_SUITE_P(Cells, BlockDeviceIoctls, ::testing::ValuesIn([] {
                           std::vector<Cell> cells;
                           for (const Situation situation :
                                {Situation::kAlone, Situation::kBesideAnotherTarget, Situation::kAfterThePluginsEnd}) {
                             for (const bool read_only : {false, true}) {
                               for (const bool capable : {false, true})
                                 cells.push_back({situation, read_only, capable});
                             }
                           }
                           return cells;
                         }()),
                         NameOfCell);

}  // namespace
}  // namespace mooring::testing

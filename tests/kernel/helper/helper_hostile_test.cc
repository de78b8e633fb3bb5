// A hostile plugin sends broken frames, invalid messages, files that are no sockets, and too many channels. The mount
// helper survives, serves an honest channel meanwhile, and mounts nothing where it must not.
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <random>

#include "mounter.pb.h"
#include "mounter/helper/channel.h"
#include "mounter/helper/helper_server.h"
#include "mounter/helper/wire.h"
#include "tests/kernel/helper/helper_test.h"
#include "tests/support/hold_image.h"

namespace mooring::testing {
namespace {

std::string Frame(const std::string& bytes, std::size_t length) {
  std::string frame(4, '\0');
  for (unsigned i = 0; i < 4; ++i) frame[i] = static_cast<char>((length >> (8 * i)) & 0xFFU);
  return frame + bytes;
}
std::string Frame(const pb::Request& request) {
  const std::string bytes = request.SerializeAsString();
  return Frame(bytes, bytes.size());
}

class HostileTest : public HelperProcessTest {
 protected:
  void SetUp() override {
    HelperProcessTest::SetUp();
    Dir("outside/kept");
    absl::StatusOr<HelperSpawner> spawner = StartSpawner();
    ASSERT_OK(spawner);
    spawner_.emplace(*std::move(spawner));
    absl::StatusOr<HelperProcess> helper = spawner_->StartHelper();
    ASSERT_OK(helper);
    helper_ = *std::move(helper);
    seen_ = {spawner_->pid(), helper_.pid};
    honest_.emplace(Open());
    ExpectHonestIsServed();
    mounts_ = OtherMounts();
  }

  void TearDown() override {
    if (honest_) ExpectHonestIsServed();
    EXPECT_TRUE(!helper_.control.ok() || Runs(helper_.pid)) << HelperLog();
    EXPECT_EQ(OtherMounts(), mounts_);
    EXPECT_THAT(Entries(Path("outside")), ElementsAre("kept"));
    honest_.reset();
    helper_.control.reset();
    spawner_.reset();
    HelperProcessTest::TearDown();
  }

  // Without those of the tests, and the scratches of the helpers.
  std::string OtherMounts() const {
    std::string mounts;
    for (const MountLine& line : Mounts()) {
      const bool known = line.target.starts_with(Path("csi/")) || line.target.starts_with("/run/mooring-scratch/");
      if (!known) mounts += line.target + "\n";
    }
    return mounts;
  }

  UniqueFd Open() const {
    SocketPair pair = *MakeSocketPair(SOCK_STREAM);
    EXPECT_OK(SendParcel(helper_.control, 0, pair.theirs));
    return std::move(pair.ours);
  }

  static absl::StatusOr<pb::Answer> Ask(Channel& channel, const pb::Request& request) {
    MOORING_RETURN_IF_ERROR(channel.Send(request));
    pb::Answer answer;
    MOORING_RETURN_IF_ERROR(
        channel.Receive(answer, wire::kMostAnswer, Channel::Clock::now() + std::chrono::seconds(10)));
    return answer;
  }

  void ExpectHonestIsServed() {
    pb::Request request;
    request.set_find(Path("csi"));
    const absl::StatusOr<pb::Answer> answer = Ask(*honest_, request);
    ASSERT_OK(answer);
    EXPECT_EQ(answer->path().kind(), pb::PathInfo::DIRECTORY);
  }

  // Sends these bytes and reads all answers, until the helper closes the channel.
  std::string SaysTo(const std::string& bytes) const {
    const UniqueFd channel = Open();
    ::send(channel.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(channel.get(), SHUT_WR);
    const timeval patience = {10, 0};
    ::setsockopt(channel.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    std::string said;
    std::array<char, 65536> part = {};
    for (ssize_t got = 0; (got = ::recv(channel.get(), part.data(), part.size(), 0)) != 0;) {
      if (got < 0 && errno == ECONNRESET) break;
      EXPECT_GT(got, 0) << "the helper does not close the channel: " << std::strerror(errno);
      if (got < 0) break;
      said.append(part.data(), static_cast<std::size_t>(got));
    }
    return said;
  }

  // A request of each kind, with allowed and forbidden paths.
  std::vector<pb::Request> Requests() const {
    std::vector<pb::Request> all;
    for (const std::string& path : {Path("outside/kept"), Target("x"), Image("a.img"), std::string("/dev/loop0")}) {
      const std::size_t first = all.size();
      all.resize(first + 27);
      all[first].mutable_mount()->set_source(path);
      all[first].mutable_mount()->set_target(path);
      all[first].mutable_mount()->set_fs_type("ext4");
      all[first].mutable_mount()->set_label("mooring:x");
      all[first].mutable_mount()->add_options()->set_key("discard");
      all[first + 1].mutable_bind()->set_source(path);
      all[first + 1].mutable_bind()->set_target(path);
      all[first + 1].mutable_bind()->set_propagation(pb::SHARED);
      all[first + 2].mutable_unmount()->set_target(path);
      all[first + 2].mutable_unmount()->set_remove_target(true);
      all[first + 3].set_find(path);
      all[first + 4].set_list(path);
      all[first + 5].set_stats(path);
      all[first + 6].mutable_attach_loop()->set_backing_file(path);
      all[first + 7].mutable_detach_loop()->set_device(path);
      all[first + 8].mutable_resize_loop()->set_device(path);
      all[first + 9].set_find_loops(path);
      all[first + 10].set_probe(path);
      all[first + 11].mutable_format()->set_path(path);
      all[first + 12].mutable_check()->set_path(path);
      all[first + 13].mutable_grow()->set_path(path);
      all[first + 14].set_health_problem(path);
      all[first + 15].mutable_change()->set_target(path);
      all[first + 16].mutable_tune_loop()->mutable_loop()->set_device(path);
      all[first + 17].mutable_copy()->add_copies()->set_source(path);
      all[first + 18].set_thaw(path);
      all[first + 19].set_remove_tree(path);
      all[first + 20].mutable_needs()->add_seen_outside(path);
      all[first + 21].set_is_in_use(path);
      all[first + 22].set_prepare_subvolumes(path);
      all[first + 23].mutable_make_subvolumes()->add_subvolumes()->set_path(path);
      all[first + 24].mutable_limit_subvolume()->set_path(path);
      all[first + 25].set_remove_subvolume(path);
      all[first + 26].mutable_limit_directory()->set_path(path);
    }
    return all;
  }

  std::optional<HelperSpawner> spawner_;
  HelperProcess helper_;
  std::optional<Channel> honest_;
  std::string mounts_;
};

// ---- frames

TEST_F(HostileTest, RandomBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(SaysTo(bytes), "");
  }
}

TEST_F(HostileTest, RandomBytesOfTheRightLength) {
  std::mt19937 random(2);
  for (int i = 0; i < 4000; ++i) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    SaysTo(Frame(bytes, bytes.size()));
  }
}

TEST_F(HostileTest, FlippedBits) {
  const std::vector<pb::Request> requests = Requests();
  std::mt19937 random(3);
  for (int i = 0; i < 8000; ++i) {
    std::string frame = Frame(requests[random() % requests.size()]);
    for (std::size_t flips = 1 + random() % 8; flips > 0; --flips) {
      frame[random() % frame.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    SaysTo(frame);
  }
}

TEST_F(HostileTest, CutOffFrames) {
  for (const pb::Request& request : Requests()) {
    const std::string frame = Frame(request);
    for (std::size_t size = 0; size < frame.size(); size += 1 + frame.size() / 40) {
      EXPECT_EQ(SaysTo(frame.substr(0, size)), "");
    }
  }
}

TEST_F(HostileTest, HugeLengths) {
  for (const std::size_t length :
       {std::size_t{65537}, std::size_t{1} << 20U, std::size_t{0x7FFF'FFFF}, std::size_t{0xFFFF'FFFF}}) {
    for (const std::size_t bytes : {0U, 1U, 60000U}) {
      EXPECT_EQ(SaysTo(Frame(std::string(bytes, 'x'), length)), "");
    }
  }
  const std::string log = HelperLog();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_THAT(log, HasSubstr("closing a channel that carried a malformed request"));
}

TEST_F(HostileTest, InvalidRequests) {
  std::mt19937_64 random(4);
  const auto text = [&] {
    const std::vector<std::string> texts = {
        // short texts
        "", "/", "//", "..", "/../etc", std::string("/\0x", 3), "\xff\xfe", "/proc/self/fd/3", "/dev/loop0",
        // paths outside, and long texts
        Target("../outside/kept"), std::string(4096, '/'), "/" + std::string(5000, 'x')};
    return texts[random() % texts.size()];
  };
  for (int i = 0; i < 4000; ++i) {
    pb::Request request;
    switch (random() % 6) {
      case 0:
        request.mutable_mount()->set_source(text());
        request.mutable_mount()->set_target(text());
        request.mutable_mount()->set_fs_type(text());
        request.mutable_mount()->set_group(static_cast<std::uint32_t>(random()));
        request.mutable_mount()->set_propagation(static_cast<pb::Propagation>(random()));
        for (std::size_t n = random() % 100; n > 0; --n) request.mutable_mount()->add_options()->set_key("k");
        break;
      case 1:
        request.mutable_bind()->set_source(text());
        request.mutable_bind()->set_target(text());
        request.mutable_bind()->set_target_kind(static_cast<pb::TargetKind>(random() % 4));
        request.mutable_bind()->mutable_flags()->set_attributes(random() % 512);
        break;
      case 2:
        request.mutable_unmount()->set_target(text());
        break;
      case 3:
        request.mutable_detach_loop()->set_device(text());
        request.mutable_detach_loop()->set_device_number(random());
        request.mutable_detach_loop()->set_backing_inode(random());
        break;
      case 4:
        request.mutable_attach_loop()->set_backing_file(text());
        request.mutable_attach_loop()->set_label(text());
        break;
      default:
        request.mutable_grow()->set_path(text());
        request.mutable_grow()->set_fs_type(text());
    }
    const std::string said = SaysTo(Frame(request));
    pb::Answer answer;
    EXPECT_TRUE(said.size() >= 4 && answer.ParseFromString(said.substr(4))) << request.call_case();
    EXPECT_TRUE(request.has_detach_loop() || answer.code() != 0) << request.call_case();
  }
}

// ---- files

std::vector<UniqueFd> StrangeFiles(const std::string& directory) {
  std::vector<UniqueFd> files;
  files.emplace_back(::open((directory + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  files.emplace_back(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  files.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
  files.emplace_back(::open(directory.c_str(), O_PATH | O_CLOEXEC));
  std::array<int, 2> pipe = {-1, -1};
  EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  files.emplace_back(pipe[0]);
  files.emplace_back(pipe[1]);
  files.push_back(std::move(MakeSocketPair(SOCK_STREAM)->theirs));     // whose other end is closed
  files.push_back(std::move(MakeSocketPair(SOCK_SEQPACKET)->theirs));  // the same, of another type
  files.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  files.emplace_back(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  files.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return files;
}

std::size_t ThreadsOf(pid_t pid) { return Entries("/proc/" + std::to_string(pid) + "/task").size(); }
std::size_t FilesOf(pid_t pid) { return Entries("/proc/" + std::to_string(pid) + "/fd").size(); }

// The open files of a helper that does nothing. At its start a thread of it clears what others have left.
std::size_t FilesAtRest(pid_t pid) {
  EXPECT_TRUE(Eventually([&] { return ThreadsOf(pid) == 2; }));
  return FilesOf(pid);
}

TEST_F(HostileTest, FilesThatAreNoChannels) {
  const std::size_t before = FilesAtRest(helper_.pid);
  for (int round = 0; round < 50; ++round) {
    for (const UniqueFd& file : StrangeFiles(dir_.path())) ASSERT_OK(SendParcel(helper_.control, round, file));
    ExpectHonestIsServed();
  }
  EXPECT_TRUE(Eventually([&] { return FilesOf(helper_.pid) == before && ThreadsOf(helper_.pid) == 2; }));
  const std::string log = HelperLog();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

// Parcels of a wrong size, and with other numbers of files than one, up to the limit of the kernel.
TEST_F(HostileTest, MalformedParcels) {
  const std::size_t before = FilesAtRest(helper_.pid);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const std::size_t files : {0U, 1U, 2U, 3U, 100U, 253U}) {
    for (const std::size_t size : {1U, 8U, 9U, 4096U}) {
      std::string bytes(size, 'x');
      iovec part = {bytes.data(), bytes.size()};
      alignas(cmsghdr) std::array<char, CMSG_SPACE(253 * sizeof(int))> control = {};
      msghdr message = {};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      if (files > 0) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(files * sizeof(int));
        cmsghdr* const rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(files * sizeof(int));
        const std::vector<int> raw(files, null.get());
        std::memcpy(CMSG_DATA(rights), raw.data(), files * sizeof(int));
      }
      ASSERT_EQ(::sendmsg(helper_.control.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(size));
    }
  }
  ExpectHonestIsServed();
  EXPECT_TRUE(Eventually([&] { return FilesOf(helper_.pid) == before; }));
}

TEST_F(HostileTest, TooManyChannels) {
  std::vector<UniqueFd> channels;
  for (int i = 1; i < kMostChannels; ++i) channels.push_back(Open());  // and the honest one
  EXPECT_TRUE(Eventually([&] { return ThreadsOf(helper_.pid) == kMostChannels + 1U; }));
  Channel refused(Open());
  pb::Request request;
  request.set_find("/");
  EXPECT_THAT(Ask(refused, request), FailsWith(StatusCode::kUnavailable, "closed"));
  ExpectHonestIsServed();
  Channel last(std::move(channels.back()));
  EXPECT_OK(Ask(last, request));
  channels.clear();
  EXPECT_TRUE(Eventually([&] { return ThreadsOf(helper_.pid) <= 3U; }));
  Channel again(Open());
  EXPECT_OK(Ask(again, request));
}

// The helper has not read the last requests yet when their channel ends.
TEST_F(HostileTest, ChannelsThatAreClosedAtOnce) {
  for (int i = 0; i < 2000; ++i) Open();
  ExpectHonestIsServed();
  EXPECT_TRUE(Eventually([&] { return ThreadsOf(helper_.pid) == 2; }));
}

// ---- the end

TEST_F(HostileTest, ItEndsWhenItsControlSocketIsClosed) {
  honest_.reset();
  helper_.control.reset();
  EXPECT_TRUE(Eventually([this] { return !Runs(helper_.pid); }));
  const absl::StatusOr<HelperProcess> next = spawner_->StartHelper();
  ASSERT_OK(next);
  seen_.push_back(next->pid);
  EXPECT_EQ(next->predecessor, "exit status 0");
}

// A killed plugin leaves running calls. The helper waits for them, but only for a short time.
TEST_F(HostileTest, ItEndsDuringACall) {
  Sparse("volumes/a.img", 16 * kMiB);
  const UniqueFd lock = HoldImage(Image("a.img"));
  pb::Request request;
  request.mutable_attach_loop()->set_backing_file(Image("a.img"));
  request.mutable_attach_loop()->set_label("mooring:a");
  ASSERT_OK(honest_->Send(request));
  std::this_thread::sleep_for(milliseconds(50));
  honest_.reset();
  helper_.control.reset();
  EXPECT_TRUE(Eventually([this] { return !Runs(helper_.pid); }));
  EXPECT_THAT(HelperLog(), HasSubstr("ends in the middle of a call"));
  const absl::StatusOr<HelperProcess> next = spawner_->StartHelper();
  ASSERT_OK(next);
  seen_.push_back(next->pid);
  EXPECT_EQ(next->predecessor, "exit status 1");
  EXPECT_TRUE(NoLoopOver(Path("volumes")));
}

// The spawner accepts one kind of message only.
TEST_F(HostileTest, ASpawnerThatReceivesGarbageEndsWithItsHelpers) {
  const char nothing = 0;
  ASSERT_EQ(::send(spawner_->socket().get(), &nothing, 1, MSG_NOSIGNAL), 1);
  EXPECT_THAT(spawner_->StartHelper(), FailsWith(StatusCode::kUnavailable, "spawner"));
  ExpectHonestIsServed();
}

}  // namespace
}  // namespace mooring::testing

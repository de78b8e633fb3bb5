#include "tests/support/fuse_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace mooring::testing {
namespace {

constexpr std::uint32_t kLongestWrite = 128 * 1024;
constexpr std::uint64_t kBlock = 4096;

// A hang ends by itself, for tests that fail. Otherwise a killed test would never end while a loop device over this
// filesystem is mounted. Its last thread would hold /dev/fuse, and wait for data to be written back.
constexpr std::chrono::seconds kLongestHang{20};

}  // namespace

struct FuseServer::Request {
  const fuse_in_header* header;
  const char* body;
  template <typename T>
  const T& As() const {
    return *reinterpret_cast<const T*>(body);
  }
  std::string Name(std::size_t offset = 0) const { return std::string(body + offset); }
};

FuseServer::FuseServer(const std::string& mount_point)
    : fuse_(::open("/dev/fuse", O_RDWR | O_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kLongestWrite + 65536) {
  nodes_[FUSE_ROOT_ID].mode = S_IFDIR | 0755;
  const std::string options = "fd=" + std::to_string(fuse_.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
  const int mounted = ::mount("mooring-test", mount_point.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str());
  EXPECT_EQ(mounted, 0) << "these tests need FUSE in the kernel: " << std::strerror(errno);
  thread_ = std::thread([this] { Serve(); });
}

FuseServer::~FuseServer() { Die(); }

void FuseServer::Hang() {
  hanging_ = true;
  ::eventfd_write(wake_.get(), 1);
}

void FuseServer::HangOnData() { data_hangs_ = true; }

void FuseServer::Fail(int error) { error_ = error; }

void FuseServer::Resume() {
  hanging_ = data_hangs_ = false;
  error_ = 0;
  ::eventfd_write(wake_.get(), 1);
}

void FuseServer::Die() {
  ending_ = true;
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
  fuse_.reset();
}

bool FuseServer::AwaitRequest() {
  for (auto asked = std::chrono::steady_clock::now();;) {
    if (ending_) return false;
    if (std::chrono::steady_clock::now() - asked > kLongestHang) Resume();
    std::array waited = {pollfd{wake_.get(), POLLIN, 0}, pollfd{hanging_ ? -1 : fuse_.get(), POLLIN, 0}};
    ::poll(waited.data(), waited.size(), 1000);
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
    if (!hanging_ && !data_hangs_) {
      AnswerDeferred();
      asked = std::chrono::steady_clock::now();
    }
    if (!hanging_ && !ending_ && waited[1].revents != 0) return true;
  }
}

void FuseServer::Serve() {
  while (AwaitRequest()) {
    const ssize_t size = ::read(fuse_.get(), buffer_.data(), buffer_.size());
    if (size < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) continue;
    if (size < static_cast<ssize_t>(sizeof(fuse_in_header))) return;  // unmounted
    buffer_[static_cast<std::size_t>(size)] = 0;
    const Request request = {reinterpret_cast<const fuse_in_header*>(buffer_.data()),
                             buffer_.data() + sizeof(fuse_in_header)};
    if (HangsOn(request)) {
      deferred_.emplace_back(buffer_.begin(), buffer_.begin() + size + 1);
    } else {
      Answer(request);
    }
  }
}

bool FuseServer::HangsOn(const Request& request) const {
  const std::uint32_t opcode = request.header->opcode;
  return data_hangs_ && (opcode == FUSE_READ || opcode == FUSE_WRITE || opcode == FUSE_FSYNC);
}

void FuseServer::AnswerDeferred() {
  for (const std::vector<char>& bytes : deferred_) {
    Answer({reinterpret_cast<const fuse_in_header*>(bytes.data()), bytes.data() + sizeof(fuse_in_header)});
  }
  deferred_.clear();
}

void FuseServer::Answer(const Request& request) {
  const bool wanted = request.header->opcode != FUSE_FORGET && request.header->opcode != FUSE_BATCH_FORGET;
  if (error_ != 0 && wanted) return Reply(request, error_);
  switch (request.header->opcode) {
    case FUSE_INIT:
      return Init(request);
    case FUSE_LOOKUP:
      return LookUp(request);
    case FUSE_GETATTR:
      return GetAttributes(request);
    case FUSE_SETATTR:
      return SetAttributes(request);
    case FUSE_MKDIR:
      return Make(request, request.Name(sizeof(fuse_mkdir_in)), S_IFDIR | request.As<fuse_mkdir_in>().mode);
    case FUSE_MKNOD:
      return Make(request, request.Name(sizeof(fuse_mknod_in)), request.As<fuse_mknod_in>().mode);
    case FUSE_UNLINK:
    case FUSE_RMDIR:
      return Remove(request);
    case FUSE_OPEN:
    case FUSE_OPENDIR:
      return ReplyWith(request, fuse_open_out{});
    case FUSE_READ:
      return Read(request);
    case FUSE_WRITE:
      return Write(request);
    case FUSE_READDIR:
      return ReadDirectory(request);
    case FUSE_STATFS:
      return Statfs(request);
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_DESTROY:
      return Reply(request, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return;  // these requests have no answer
    default:
      return Reply(request, ENOSYS);
  }
}

void FuseServer::Reply(const Request& request, int error, const void* data, std::size_t size) {
  fuse_out_header header = {};
  header.len = static_cast<std::uint32_t>(sizeof(header) + size);
  header.error = -error;
  header.unique = request.header->unique;
  const std::array<iovec, 2> parts = {iovec{&header, sizeof(header)}, iovec{const_cast<void*>(data), size}};
  [[maybe_unused]] const ssize_t sent = ::writev(fuse_.get(), parts.data(), size == 0 ? 1 : 2);
}

void FuseServer::Init(const Request& request) {
  fuse_init_out answer = {};
  answer.major = FUSE_KERNEL_VERSION;
  answer.minor = 31;  // every supported kernel has this version
  answer.flags = FUSE_BIG_WRITES | FUSE_MAX_PAGES;
  answer.max_write = kLongestWrite;
  answer.max_pages = kLongestWrite / kBlock;
  answer.max_readahead = kLongestWrite;
  ReplyWith(request, answer);
}

namespace {

fuse_attr AttributesOf(std::uint64_t id, std::uint32_t mode, std::uint64_t size) {
  fuse_attr attributes = {};
  attributes.ino = id;
  attributes.mode = mode;
  attributes.nlink = S_ISDIR(mode) ? 2 : 1;
  attributes.size = size;
  attributes.blocks = (size + 511) / 512;
  attributes.blksize = kBlock;
  return attributes;
}

}  // namespace

void FuseServer::ReplyEntry(const Request& request, std::uint64_t id) {
  fuse_entry_out answer = {};
  answer.nodeid = id;
  answer.attr = AttributesOf(id, nodes_[id].mode, nodes_[id].data.size());
  ReplyWith(request, answer);
}

void FuseServer::LookUp(const Request& request) {
  const auto& entries = nodes_[request.header->nodeid].entries;
  const auto found = entries.find(request.Name());
  if (found == entries.end()) return Reply(request, ENOENT);
  ReplyEntry(request, found->second);
}

void FuseServer::GetAttributes(const Request& request) {
  const std::uint64_t id = request.header->nodeid;
  fuse_attr_out answer = {};
  answer.attr = AttributesOf(id, nodes_[id].mode, nodes_[id].data.size());
  ReplyWith(request, answer);
}

void FuseServer::SetAttributes(const Request& request) {
  const auto& in = request.As<fuse_setattr_in>();
  Node& node = nodes_[request.header->nodeid];
  if ((in.valid & FATTR_SIZE) != 0) node.data.resize(in.size);
  if ((in.valid & FATTR_MODE) != 0) node.mode = (node.mode & S_IFMT) | (in.mode & 07777);
  GetAttributes(request);
}

void FuseServer::Make(const Request& request, const std::string& name, std::uint32_t mode) {
  const std::uint64_t id = nodes_.rbegin()->first + 1;
  nodes_[id].mode = mode;
  nodes_[request.header->nodeid].entries[name] = id;
  ReplyEntry(request, id);
}

void FuseServer::Remove(const Request& request) {
  auto& entries = nodes_[request.header->nodeid].entries;
  const auto found = entries.find(request.Name());
  if (found == entries.end()) return Reply(request, ENOENT);
  if (!nodes_[found->second].entries.empty()) return Reply(request, ENOTEMPTY);
  entries.erase(found);  // the node stays, because it may be open
  Reply(request, 0);
}

void FuseServer::Read(const Request& request) {
  const auto& in = request.As<fuse_read_in>();
  const std::string& data = nodes_[request.header->nodeid].data;
  if (in.offset >= data.size()) return Reply(request, 0);
  Reply(request, 0, data.data() + in.offset, std::min<std::size_t>(in.size, data.size() - in.offset));
}

void FuseServer::Write(const Request& request) {
  const auto& in = request.As<fuse_write_in>();
  std::string& data = nodes_[request.header->nodeid].data;
  if (in.offset + in.size > data.size()) data.resize(in.offset + in.size);
  data.replace(in.offset, in.size, request.body + sizeof(in), in.size);
  fuse_write_out answer = {};
  answer.size = in.size;
  ReplyWith(request, answer);
}

void FuseServer::ReadDirectory(const Request& request) {
  const auto& in = request.As<fuse_read_in>();
  std::string listing;
  std::uint64_t at = 0;
  for (const auto& [name, id] : nodes_[request.header->nodeid].entries) {
    if (at++ < in.offset) continue;
    const std::size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + name.size());
    if (listing.size() + size > in.size) break;
    fuse_dirent entry = {};
    entry.ino = id;
    entry.off = at;
    entry.namelen = static_cast<std::uint32_t>(name.size());
    entry.type = (nodes_[id].mode & S_IFMT) >> 12U;
    std::string bytes(reinterpret_cast<const char*>(&entry), FUSE_NAME_OFFSET);
    bytes += name;
    bytes.resize(size);
    listing += bytes;
  }
  Reply(request, 0, listing.data(), listing.size());
}

void FuseServer::Statfs(const Request& request) {
  fuse_statfs_out answer = {};
  answer.st.bsize = answer.st.frsize = kBlock;
  answer.st.blocks = answer.st.bfree = answer.st.bavail = 1U << 20U;
  answer.st.namelen = 255;
  ReplyWith(request, answer);
}

}  // namespace mooring::testing

// A filesystem that hangs, fails or dies when a test says so. Its directories and files are in the memory of this
// process, and served over /dev/fuse without a library: fuse(4). The kernel caches nothing, so every look asks the
// server.
//
// A thread of this process that touches it while it hangs, hangs too.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/file/unique_fd.h"

namespace mooring::testing {

class FuseServer {
 public:
  explicit FuseServer(const std::string& mount_point);  // mounts; if that fails, the test fails
  FuseServer(const FuseServer&) = delete;
  FuseServer& operator=(const FuseServer&) = delete;
  ~FuseServer();  // dies; the caller unmounts

  void Hang();           // answers no request
  void HangOnData();     // answers no read, write or sync
  void Fail(int error);  // answers every request with this error (0: stops that)
  void Resume();         // answers all requests again, also those that wait
  void Die();            // from now on every request gets ENOTCONN

 private:
  struct Node {
    std::uint32_t mode = 0;
    std::string data;
    std::map<std::string, std::uint64_t> entries;
  };
  struct Request;

  void Serve();
  void AnswerDeferred();
  bool HangsOn(const Request& request) const;
  bool AwaitRequest();  // false: the server ends
  void Answer(const Request& request);
  void Reply(const Request& request, int error, const void* data = nullptr, std::size_t size = 0);
  template <typename T>
  void ReplyWith(const Request& request, const T& answer) {
    Reply(request, 0, &answer, sizeof(answer));
  }
  void Init(const Request& request);
  void LookUp(const Request& request);
  void GetAttributes(const Request& request);
  void SetAttributes(const Request& request);
  void Make(const Request& request, const std::string& name, std::uint32_t mode);
  void Remove(const Request& request);
  void Read(const Request& request);
  void Write(const Request& request);
  void ReadDirectory(const Request& request);
  void Statfs(const Request& request);
  void ReplyEntry(const Request& request, std::uint64_t id);

  UniqueFd fuse_, wake_;
  std::atomic<bool> hanging_ = false, data_hangs_ = false, ending_ = false;
  std::atomic<int> error_ = 0;
  std::vector<std::vector<char>> deferred_;
  std::map<std::uint64_t, Node> nodes_;
  std::vector<char> buffer_;
  std::thread thread_;
};

}  // namespace mooring::testing

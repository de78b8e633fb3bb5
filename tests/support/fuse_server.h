// A filesystem that stops answering, or dies, when it is told to: directories and files in the memory of this process,
// served over /dev/fuse without a library, fuse(4). Nothing is cached by the kernel, so every look asks the server.
//
// Who touches it from here while it hangs hangs, too.
#ifndef MOORING_TESTS_SUPPORT_FUSE_SERVER_H_
#define MOORING_TESTS_SUPPORT_FUSE_SERVER_H_

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
  explicit FuseServer(const std::string& mount_point);  // mounts; a failure of the test where it cannot
  FuseServer(const FuseServer&) = delete;
  FuseServer& operator=(const FuseServer&) = delete;
  ~FuseServer();  // dies; whose mount it is sees to that

  void Hang();           // from now on nobody is answered,
  void HangOnData();     // or nobody who reads, writes or syncs,
  void Fail(int error);  // or everybody with this error (0: no more),
  void Resume();         // and now all are, those that wait included
  void Die();            // ENOTCONN, to all

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
  bool AwaitRequest();  // false: to end
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

#endif  // MOORING_TESTS_SUPPORT_FUSE_SERVER_H_

// Forwards TCP connections to a member of etcd, and can hold back its answers.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <thread>

namespace mooring::testing {

class AnswerProxy {
 public:
  // `member`: "127.0.0.1:1".
  explicit AnswerProxy(const std::string& member);
  ~AnswerProxy();

  std::string endpoint() const;  // "etcd://127.0.0.1:2"

  void HoldAnswers() { holding_ = true; }  // requests still reach the member
  void LoseHeldAnswers();                  // closes all connections; new ones are forwarded as before

 private:
  struct Connection {
    int client = -1, member = -1;
    std::jthread thread;
  };

  void Accept(const std::stop_token& stop);
  void Forward(const Connection& connection, const std::stop_token& stop);

  const int member_port_;
  int listener_ = -1;
  std::atomic<bool> holding_ = false, losing_ = false;
  std::atomic<int> open_ = 0;          // connections that are forwarded now
  std::list<Connection> connections_;  // used by the thread of Accept, and after it has ended
  std::jthread acceptor_;
};

}  // namespace mooring::testing

// A connection reads a request, waits for the answer, sends that, and discards further input until the client closes.
// It never blocks.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/file/unique_fd.h"
#include "http/request.h"

namespace mooring::http {

class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // `patience`: the most time for the whole request, and again for the whole answer.
  Connection(UniqueFd fd, Clock::duration patience)
      : fd_(std::move(fd)), patience_(patience), until_(Clock::now() + patience) {}

  pollfd Waited() const;
  bool IsRunning() const { return state_ == State::kRuns; }  // the handler has its request
  Clock::time_point until() const { return IsRunning() ? Clock::time_point::max() : until_; }

  // Reads or writes as much as is possible now. False: the connection is over.
  bool Advance(const RequestLimits& limits);

  // The request or refusal that Advance has read.
  std::optional<std::variant<Request, Refusal>> TakeRequest() { return std::exchange(request_, std::nullopt); }
  void BeginCall();  // the connection waits for Answer

  bool IsAbandoned() const;  // Request::is_abandoned
  pid_t Caller() const;      // Request::caller

  // Begins to send. False: the connection is over.
  bool Answer(const Response& response);

  // When there are too many connections, the lowest is closed first.
  int priority() const { return static_cast<int>(state_); }

 private:
  enum class State { kIsDone, kReads, kAnswers, kRuns };

  bool Receive();
  bool Send();

  UniqueFd fd_;
  Clock::duration patience_;
  Clock::time_point until_;
  State state_ = State::kReads;
  std::string text_;      // the request, then the answer
  std::size_t sent_ = 0;  // bytes of the answer
  std::optional<std::variant<Request, Refusal>> request_;
};

}  // namespace mooring::http

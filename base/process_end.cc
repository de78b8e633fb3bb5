#include "base/process_end.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace mooring {
namespace {

std::atomic<int> status_at_end{1};
std::atomic<const char*> why_at_end{""};

void End(int /*signal*/) {
  const char* const why = why_at_end;
  const ssize_t done = ::write(STDERR_FILENO, why, std::strlen(why));
  static_cast<void>(done);  // there may be nobody who reads it
  ::_exit(status_at_end);
}

}  // namespace

void EndProcessAfter(std::chrono::seconds time, int exit_status, const char* why) {
  ::alarm(0);
  status_at_end = exit_status;
  why_at_end = why;
  struct sigaction action = {};
  action.sa_handler = End;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm_only;
  ::sigemptyset(&alarm_only);
  ::sigaddset(&alarm_only, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  ::alarm(static_cast<unsigned>(time.count()));
}

}  // namespace mooring

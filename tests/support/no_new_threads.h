// While this object lives, no thread can be started in this process, as at the limit of processes.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace mooring::testing {

class NoNewThreads {
 public:
  NoNewThreads() {
    ::pthread_getattr_default_np(&before_);
    ::pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, kMoreThanAddresses);
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
  }
  ~NoNewThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  NoNewThreads(const NoNewThreads&) = delete;
  NoNewThreads& operator=(const NoNewThreads&) = delete;

 private:
  static constexpr std::size_t kMoreThanAddresses = std::size_t{1} << 60;

  ::pthread_attr_t before_;
};

}  // namespace mooring::testing

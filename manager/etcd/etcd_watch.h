// Watches of keys in etcd. Each has a thread, which goes on with another member when its own is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "manager/etcd/etcd_client.h"
#include "manager/state/state.h"

namespace mooring::manager {

// All watches of a state. They share it, so that a watch may outlive the state; it then gets CANCELLED.
class EtcdWatches : public std::enable_shared_from_this<EtcdWatches> {
 public:
  // `root`: the prefix of all keys, which changes do not have.
  EtcdWatches(std::shared_ptr<EtcdClient> client, std::string root)
      : client_(std::move(client)), root_(std::move(root)) {}

  std::unique_ptr<Watch> Start(const std::string& prefix, std::int64_t from);
  void Close();  // ends all watches, now and later

 private:
  class One;

  const std::shared_ptr<EtcdClient> client_;
  const std::string root_;
  std::mutex mutex_;
  std::set<One*> open_;  // under mutex_
  bool closed_ = false;  // under mutex_
};

// The first key after all keys with the prefix, as etcd wants it.
std::string EndOfPrefix(std::string prefix);

}  // namespace mooring::manager

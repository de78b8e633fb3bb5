// States in one etcd cluster.
#pragma once

#include "manager/etcd/etcd_state.h"
#include "tests/manager/etcd/etcd_cluster.h"

namespace mooring::manager {

using testing::SharedCluster;

// A prefix and host of its own, without secrets.
EtcdSettings NewSettings(const testing::EtcdCluster& cluster);

}  // namespace mooring::manager

// States in one etcd cluster, which the first of them starts.
#pragma once

#include "manager/etcd/etcd_state.h"
#include "tests/manager/etcd/etcd_cluster.h"

namespace mooring::manager {

testing::EtcdCluster& SharedCluster();

// A prefix and host of its own, without secrets.
EtcdSettings NewSettings(const testing::EtcdCluster& cluster);

}  // namespace mooring::manager

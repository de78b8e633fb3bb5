// The part of the manager that works with other hosts over a shared state. A host whose state is its own has the null
// form, so that nothing else asks whether there are others.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "manager/attach/attachments.h"
#include "manager/claims/claims.h"
#include "manager/config.h"
#include "manager/hosts/host_directory.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/requests/controller_sharing.h"
#include "manager/volumes/attachment_journal.h"
#include "manager/volumes/volumes.h"

namespace mooring::manager {

class Cluster {
 public:
  // The objects outlive the cluster.
  struct Base {
    const Config& config;
    State& shared;
    State& local;
    RecordsStore& store;
    Events& events;
    WorkQueue& work;
    PluginDirectory& plugins;  // of this host
  };
  // The objects outlive Stop. The functions wait for nothing.
  struct Users {
    Claims& claims;
    Volumes& volumes;
    Attachments& attachments;
    AttachmentJournal& journal;
    std::function<void(const std::string& plugin)> on_other_controllers;  // those of other hosts
    std::function<void()> restore;     // called once: from now on, volumes may be attached again
    std::function<void()> on_checked;  // this host has checked its claims after a new lease
  };

  virtual ~Cluster() = default;

  virtual HostDirectory& hosts() = 0;
  virtual PluginDirectory& plugins() = 0;  // with the controllers of other hosts
  virtual ControllerSharing::Metrics requests() const = 0;

  virtual void Begin(Users users) = 0;
  virtual void PluginsChanged() = 0;  // the health of a plugin of this host has changed

  // UNAVAILABLE: this host has to check its claims first. After a time without a lease, others may have used the
  // volumes whose old mounts still stand here.
  virtual absl::Status CheckRejoined() const = 0;

  // As Recovery::RecoverNow.
  virtual absl::Status RecoverNow(const std::string& host, Clock::time_point until) = 0;

  virtual void BeginStop() = 0;  // ends all waits for other hosts; returns at once
  virtual void Stop() = 0;       // BeginStop, then waits for its threads; after State::EndWatches
};

// `is_shared`: other hosts may share the state.
std::unique_ptr<Cluster> MakeCluster(const Cluster::Base& base, bool is_shared);

}  // namespace mooring::manager

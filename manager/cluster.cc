#include "manager/cluster.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "manager/host_setup.h"
#include "manager/hosts/event_relay.h"
#include "manager/hosts/hosts.h"
#include "manager/recovery/recovery.h"

namespace mooring::manager {
namespace {

constexpr std::size_t kRunIdBytes = 8;

class NoCluster final : public Cluster {
 public:
  explicit NoCluster(const Base& base) : hosts_(base.config.host), plugins_(base.plugins) {}

  HostDirectory& hosts() override { return hosts_; }
  PluginDirectory& plugins() override { return plugins_; }
  ControllerSharing::Metrics requests() const override { return {}; }
  void Begin(Users users) override { users.restore(); }
  void PluginsChanged() override {}
  absl::Status CheckRejoined() const override { return absl::OkStatus(); }
  absl::Status RecoverNow(const std::string& /*host*/, Clock::time_point /*until*/) override {
    return absl::OkStatus();
  }
  void BeginStop() override {}
  void Stop() override {}

 private:
  SingleHost hosts_;
  PluginDirectory& plugins_;
};

class SharedCluster final : public Cluster {
 public:
  explicit SharedCluster(const Base& base)
      : base_(base),
        hosts_(base.store, base.events, base.work, Hosts::Settings{.self = base.config.host, .version = Version()}),
        relay_(base.shared, base.events, base.work,
               EventRelay::Settings{.host = base.config.host, .run = RandomHex(kRunIdBytes)}),
        sharing_(base.shared, base.plugins, base.events, base.work, base.config.host) {}

  HostDirectory& hosts() override { return hosts_; }
  PluginDirectory& plugins() override { return sharing_.plugins(); }
  ControllerSharing::Metrics requests() const override { return sharing_.metrics(); }
  void PluginsChanged() override { sharing_.PluginsChanged(); }
  absl::Status RecoverNow(const std::string& host, Clock::time_point until) override {
    return recovery_->RecoverNow(host, until);
  }

  void Begin(Users users) override {
    sharing_.OnChange(std::move(users.on_other_controllers));
    recovery_.emplace(hosts_, base_.shared, users.claims, users.volumes, base_.work,
                      Recovery::Settings{.recover_after = base_.config.recover_after});
    rejoin_.emplace(Rejoin::Collaborators{.host = base_.config.host,
                                          .store = base_.store,
                                          .attachments = users.attachments,
                                          .journal = users.journal,
                                          .gave_up_claims =
                                              [this] {
                                                const auto self = hosts_.Find(hosts_.self());
                                                return self && self->host.gave_up_claims;
                                              },
                                          .on_new_lease = [this] { NewLease(); },
                                          .on_checked =
                                              [this, on_checked = std::move(users.on_checked)](std::int64_t lease) {
                                                checked_lease_ = lease;
                                                on_checked();
                                              },
                                          .restore = std::move(users.restore),
                                          .queue = base_.work});
  }

  absl::Status CheckRejoined() const override {
    const std::int64_t lease = base_.shared.lease().Number();
    if (lease != 0 && lease == checked_lease_) return absl::OkStatus();
    return Unavailable("this host has to check its claims in the shared state first: try again in a moment");
  }

  void BeginStop() override {
    if (recovery_) recovery_->BeginStop();
    if (rejoin_) rejoin_->BeginStop();
    sharing_.BeginStop();
  }

  void Stop() override {
    BeginStop();
    relay_.Stop();
    if (rejoin_) rejoin_->Stop();
    if (recovery_) recovery_->Stop();
    sharing_.Stop();
  }

 private:
  void NewLease() {
    hosts_.LeaseChanged();
    sharing_.LeaseChanged();
    const absl::Status kept = KeepCluster(base_.shared, base_.local, base_.config.host);
    if (!kept.ok()) log::Warning("the shared state's id cannot be stored", {{"cause", Message(kept)}});
  }

  const Base base_;
  Hosts hosts_;
  EventRelay relay_;
  ControllerSharing sharing_;
  std::atomic<std::int64_t> checked_lease_ = 0;  // the lease under which this host has checked its claims
  std::optional<Recovery> recovery_;             // Begin makes it, and the next
  std::optional<Rejoin> rejoin_;
};

}  // namespace

std::unique_ptr<Cluster> MakeCluster(const Cluster::Base& base, bool is_shared) {
  if (is_shared) return std::make_unique<SharedCluster>(base);
  return std::make_unique<NoCluster>(base);
}

}  // namespace mooring::manager

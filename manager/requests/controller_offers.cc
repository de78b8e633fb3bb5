#include "manager/requests/controller_offers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "manager.pb.h"
#include "manager/records/field_copier.h"
#include "manager/state/keys.h"

namespace mooring::manager {
namespace {

const InstanceStatus* HealthyController(const PluginStatus& plugin) {
  for (const InstanceStatus& each : plugin.instances) {
    if (each.instance.type == PluginType::kController && each.fingerprint.healthy) return &each;
  }
  return nullptr;
}

bool MayAsk(const ControllerFor& call, const ControllerOffer& offer) {
  const std::vector<std::string>& refused_by = call.refused_by;
  return std::find(refused_by.begin(), refused_by.end(), offer.host) == refused_by.end() &&
         IsReachable(call.reaches, offer.fingerprint.topology);
}

std::set<std::string> PluginsOf(const std::map<std::string, ControllerOffer>& offers) {
  std::set<std::string> plugins;
  for (const auto& [key, offer] : offers) plugins.insert(offer.plugin);
  return plugins;
}

std::set<std::string> Differences(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::set<std::string> differences;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(differences, differences.end()));
  return differences;
}

}  // namespace

static void CopyFields(FieldCopier& copy, PluginTraits& traits) {
  copy("controller_service", traits.controller_service);
  copy("group_controller_service", traits.group_controller_service);
  copy("topology", traits.topology);
  copy("expands_online", traits.expands_online);
  copy("expands_offline", traits.expands_offline);
  copy("creates", traits.creates);
  copy("publishes", traits.publishes);
  copy("publishes_read_only", traits.publishes_read_only);
  copy("lists", traits.lists);
  copy("snapshots", traits.snapshots);
  copy("lists_snapshots", traits.lists_snapshots);
  copy("clones", traits.clones);
  copy("controller_expands", traits.controller_expands);
  copy("controller_single_writer", traits.controller_single_writer);
}

static void CopyFields(FieldCopier& copy, ControllerOffer& offer) {
  copy("plugin", offer.plugin);
  copy("host", offer.host);
  copy("driver_name", offer.fingerprint.driver_name);
  copy("vendor_version", offer.fingerprint.vendor_version);
  copy("traits", offer.fingerprint.traits);
  copy("topology", offer.fingerprint.topology);
}

std::string ToValue(const ControllerOffer& offer) { return ToMessage<v1::ControllerOffer>(offer).SerializeAsString(); }

std::optional<ControllerOffer> ToOffer(const KeyValue& stored) {
  v1::ControllerOffer message;
  if (message.ParseFromString(stored.value)) {
    absl::StatusOr<ControllerOffer> offer = FromMessage<ControllerOffer>(message);
    if (offer.ok() && !offer->plugin.empty() && !offer->host.empty()) {
      offer->fingerprint.healthy = true;
      offer->fingerprint.complete = true;
      offer->fingerprint.at = std::chrono::system_clock::now();
      return *std::move(offer);
    }
  }
  log::Warning("a controller offer in the shared state is damaged, and is ignored", {{"key", stored.key}});
  return std::nullopt;
}

InstanceInfo InstanceOf(const ControllerOffer& offer) {
  InstanceInfo instance;
  instance.type = PluginType::kController;
  instance.name = offer.plugin;
  instance.version = offer.fingerprint.vendor_version;
  instance.instance_id = offer.host;
  instance.provider = "host";
  return instance;
}

ControllerOffers::ControllerOffers(State& shared, PluginDirectory& local, Events& events, WorkQueue& queue,
                                   std::string host, const Settings& settings)
    : shared_(shared),
      local_(local),
      events_(events),
      host_(std::move(host)),
      settings_(settings),
      work_(queue, {.kind = "offer", .first_retry = settings.look, .longest_retry = settings.look, .is_routine = true}),
      follower_(shared, queue, ControllersPrefix(),
                {.listed = [this](const Listing& all) { Listed(all); },
                 .changed = [this](const std::vector<Change>& changes) { Changed(changes); }},
                settings.follower) {
  Refresh();
}

ControllerOffers::~ControllerOffers() { Stop(); }

void ControllerOffers::BeginStop() {
  work_.BeginStop();
  follower_.BeginStop();
}

void ControllerOffers::Stop() {
  BeginStop();
  follower_.Stop();
  work_.Stop();
  if (shared_.lease().ValidUntil() <= Clock::now()) return;  // the store may be away, and the offers end by themselves
  Transaction all;
  for (const auto& [key, value] : std::exchange(stored_, {})) all.deletes.push_back(key);
  if (all.deletes.empty()) return;
  log::WarningIfFailed(shared_.Commit(all).status(),
                       "cannot withdraw the controllers of this host; they are withdrawn when its lease ends");
}

void ControllerOffers::Refresh() {
  work_.Repeat("the controllers of this host", settings_.look, [this] {
    Look();
    return Publish();
  });
}

void ControllerOffers::Look() {
  ByKey now;
  for (const PluginStatus& plugin : local_.List()) {
    const InstanceStatus* const controller = HealthyController(plugin);
    if (controller == nullptr) continue;
    if (controller->fingerprint.traits.topology && !IsTopologyKnown(plugin)) continue;
    ControllerOffer& offer = now[ControllerStateKey(plugin.name, host_)];
    offer = {plugin.name, host_, controller->fingerprint};
    offer.fingerprint.topology = NodeTopology(plugin);
  }
  std::set<std::string> changed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed = Differences(PluginsOf(here_), PluginsOf(now));
    for (const auto& [key, offer] : here_) {
      const auto still = now.find(key);
      if (still != now.end() && still->second.fingerprint.topology != offer.fingerprint.topology) {
        changed.insert(offer.plugin);
      }
    }
    here_ = std::move(now);
  }
  Tell(changed);
}

absl::Status ControllerOffers::Publish() {
  const std::int64_t number = shared_.lease().Number();
  if (number == 0) return absl::OkStatus();  // Refresh follows
  std::map<std::string, std::string> put;
  std::vector<std::string> withdrawn;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stored_under_, number) != number) stored_.clear();  // they ended with the lease
    for (const auto& [key, offer] : here_) {
      const std::string value = ToValue(offer);
      const auto stored = stored_.find(key);
      if (stored == stored_.end() || stored->second.value != value) put[key] = value;
    }
    for (const auto& [key, stored] : stored_) {
      if (!here_.contains(key)) withdrawn.push_back(key);
    }
  }
  for (const auto& [key, value] : put) MOORING_RETURN_IF_ERROR(Put(key, value));
  for (const std::string& key : withdrawn) MOORING_RETURN_IF_ERROR(Withdraw(key));
  return absl::OkStatus();
}

absl::Status ControllerOffers::Put(const std::string& key, const std::string& value) {
  Transaction transaction;
  transaction.puts.push_back({key, value, Transaction::EndsWith::kOwnLease});
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stored_[key] = {};  // if the commit fails, it may have been made: then it is made again, or withdrawn
  }
  MOORING_ASSIGN_OR_RETURN(const std::int64_t revision, shared_.Commit(transaction));
  const std::lock_guard<std::mutex> lock(mutex_);
  stored_[key] = {value, revision};
  return absl::OkStatus();
}

absl::Status ControllerOffers::Withdraw(const std::string& key) {
  Transaction transaction;
  transaction.deletes.push_back(key);
  MOORING_RETURN_IF_ERROR(shared_.Commit(transaction).status());
  const std::lock_guard<std::mutex> lock(mutex_);
  stored_.erase(key);
  return absl::OkStatus();
}

void ControllerOffers::Listed(const Listing& all) {
  ByKey now;
  for (const KeyValue& each : all.values) {
    std::optional<ControllerOffer> offer = ToOffer(each);
    if (offer && offer->host != host_) now[each.key] = *std::move(offer);
  }
  ByKey before;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    before = std::exchange(others_, now);
  }
  Report(before, now);
}

void ControllerOffers::Changed(const std::vector<Change>& changes) {
  std::unique_lock<std::mutex> lock(mutex_);
  const ByKey before = others_;
  for (const Change& change : changes) {
    if (change.kind == Change::Kind::kDelete) {
      others_.erase(change.value.key);
      NoteOwnDelete(change.value);
    } else if (std::optional<ControllerOffer> offer = ToOffer(change.value); offer && offer->host != host_) {
      others_[change.value.key] = *std::move(offer);
    }
  }
  const ByKey after = others_;
  lock.unlock();
  Report(before, after);
}

// Somebody has deleted an offer that still holds, so it is put again.
void ControllerOffers::NoteOwnDelete(const KeyValue& deleted) {
  const auto stored = stored_.find(deleted.key);
  if (stored == stored_.end() || stored->second.revision > deleted.modify_revision) return;
  stored_.erase(stored);
  Refresh();
}

// Not for each of many hosts, because one is enough for a call.
void ControllerOffers::Report(const ByKey& before, const ByKey& after) {
  const std::set<std::string> had = PluginsOf(before);
  const std::set<std::string> has = PluginsOf(after);
  const std::set<std::string> changed = Differences(had, has);
  for (const std::string& plugin : changed) {
    events_.Add({.kind = "controller",
                 .plugin = plugin,
                 .text = has.contains(plugin) ? "another host offers a controller"
                                              : "no other host offers a controller any more"});
  }
  Tell(changed);
}

void ControllerOffers::Tell(const std::set<std::string>& plugins) {
  if (plugins.empty()) return;
  std::vector<std::function<void(const std::string&)>> callbacks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    callbacks = callbacks_;
  }
  for (const auto& callback : callbacks) {
    for (const std::string& plugin : plugins) callback(plugin);
  }
}

void ControllerOffers::OnChange(std::function<void(const std::string& plugin)> changed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  callbacks_.push_back(std::move(changed));
}

bool ControllerOffers::IsOfferedHere(const ControllerFor& call) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = here_.find(ControllerStateKey(call.plugin, host_));
  return found != here_.end() && MayAsk(call, found->second);
}

bool ControllerOffers::IsOfferedBy(const std::string& plugin, const std::string& host) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return (host == host_ ? here_ : others_).contains(ControllerStateKey(plugin, host));
}

std::vector<ControllerOffer> ControllerOffers::OfOthers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ControllerOffer> found;
  for (const auto& [key, offer] : others_) found.push_back(offer);
  return found;
}

std::vector<ControllerOffer> ControllerOffers::OfOthers(const ControllerFor& call) const {
  std::vector<ControllerOffer> found = OfOthers();
  std::erase_if(found,
                [&](const ControllerOffer& offer) { return offer.plugin != call.plugin || !MayAsk(call, offer); });
  return found;
}

std::optional<ControllerOffer> ControllerOffers::NextOfOthers(const ControllerFor& call) {
  std::vector<ControllerOffer> found = OfOthers(call);
  if (found.empty()) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::move(found[turns_[call.plugin]++ % found.size()]);
}

}  // namespace mooring::manager

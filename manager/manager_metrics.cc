#include "manager/manager_metrics.h"

#include <prometheus/registry.h>

#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "csi.pb.h"
#include "manager/hosts/host_directory.h"
#include "manager/records/names.h"
#include "metrics/call_metrics.h"
#include "metrics/samples.h"
#include "rpc/methods.h"

namespace mooring::manager {
namespace {

using metrics::BoolSample;
using metrics::CallFamilies;
using metrics::CallMetrics;
using metrics::IntegerSample;
using metrics::Samples;
using MetricFamilies = std::vector<prometheus::MetricFamily>;

constexpr char kUnknown[] = "unknown";  // label of a plugin that has not told its name yet
constexpr Claim::State kClaimStates[] = {Claim::State::kTaken, Claim::State::kUnmountFailed,
                                         Claim::State::kNodeDetached, Claim::State::kControllerDetached};
constexpr Volume::State kVolumeStates[] = {Volume::State::kCreating, Volume::State::kReady, Volume::State::kDeleting};
constexpr AttachmentRecord::Phase kPhases[] = {AttachmentRecord::Phase::kIntent, AttachmentRecord::Phase::kMounted,
                                               AttachmentRecord::Phase::kUnmounting};

constexpr const char* kHostStates[] = {"alive", "draining", "unreachable", "lost"};  // StateWord

// Buckets for a commit, which usually syncs the disk.
const prometheus::Histogram::BucketBoundaries kCommitSeconds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                                0.025,  0.05,    0.1,    0.25,  0.5,    1,     5};

// A plugin without a known name gets calls of the Identity service only.
std::vector<std::string> MethodsFor(const std::string& plugin) {
  const google::protobuf::FileDescriptor& file = *csi::v1::ProbeRequest::descriptor()->file();
  return plugin.empty() ? MethodsOf(*file.FindServiceByName("Identity")) : MethodsOf(file);
}

void AddState(const Attachments& attachments, MetricFamilies& families) {
  Samples::Gauge("mooring_manager_build_info", "Always 1; the labels say what runs.")
      .Add({{"version", Version()}, {"commit", Commit()}}, 1)
      .MoveTo(families);
  Samples::Gauge("mooring_manager_restoring", "Attachments from before the start that still wait for their plugin.")
      .Add(attachments.restoring())
      .MoveTo(families);
  Samples took = Samples::Gauge("mooring_manager_restore_seconds",
                                "Time after the start until every attachment was checked and, if its mount was gone, "
                                "attached again. Absent before that.");
  if (const auto time = attachments.restored_in()) took.Add(std::chrono::duration<double>(*time).count());
  took.MoveTo(families);
}

void AddPlugins(PluginDirectory& plugins, const Supervisor& supervisor, MetricFamilies& families) {
  Samples up = Samples::Gauge("mooring_manager_plugin_up", "1 if volumes of this plugin can be used on this host.");
  Samples healthy = Samples::Gauge("mooring_manager_plugin_instances_healthy", "Healthy instances of a plugin.");
  Samples expected = Samples::Gauge("mooring_manager_plugin_instances_expected", "Expected instances of a plugin.");
  for (const PluginStatus& plugin : plugins.List()) {
    up.Add({{"plugin", plugin.name}}, BoolSample(plugin.schedulable()));
    for (const auto& [role, count] : {std::pair("node", plugin.nodes), std::pair("controller", plugin.controllers)}) {
      healthy.Add({{"plugin", plugin.name}, {"role", role}}, count.healthy);
      expected.Add({{"plugin", plugin.name}, {"role", role}}, count.expected);
    }
  }
  for (Samples* samples : {&up, &healthy, &expected}) samples->MoveTo(families);
  Samples restarts = Samples::Counter(
      "mooring_manager_plugin_restarts_total",
      "How often a plugin that the manager runs failed to start, ended, or was replaced because it was unhealthy.");
  for (const auto& [plugin, count] : supervisor.Restarts()) restarts.Add({{"plugin", plugin}}, IntegerSample(count));
  restarts.MoveTo(families);
}

void AddVolumes(const std::vector<Volume>& volumes, MetricFamilies& families) {
  std::map<std::string, std::map<Volume::State, std::uint64_t>> counts;
  std::map<std::string, std::uint64_t> bytes;
  for (const Volume& volume : volumes) {
    ++counts[volume.plugin][volume.state];
    bytes[volume.plugin] += volume.capacity_bytes;
  }
  Samples count = Samples::Gauge("mooring_manager_volumes", "Volumes that the manager knows.");
  Samples size = Samples::Gauge("mooring_manager_volume_bytes",
                                "Total capacity of the volumes of a plugin, as the plugin reported it.");
  for (auto& [plugin, states] : counts) {
    for (const Volume::State state : kVolumeStates) {
      count.Add({{"plugin", plugin}, {"state", ToString(state)}}, IntegerSample(states[state]));
    }
    size.Add({{"plugin", plugin}}, IntegerSample(bytes[plugin]));
  }
  count.MoveTo(families);
  size.MoveTo(families);
}

void AddClaims(const std::vector<Claim>& claims, MetricFamilies& families) {
  std::map<std::pair<ClaimMode, Claim::State>, std::uint64_t> counts;
  std::uint64_t stuck = 0;
  for (const Claim& claim : claims) {
    ++counts[{claim.mode, claim.state}];
    if (!claim.problem.empty()) ++stuck;
  }
  Samples count = Samples::Gauge("mooring_manager_claims", "Claims on volumes, by the state of their release.");
  for (const ClaimMode mode : {ClaimMode::kRead, ClaimMode::kWrite}) {
    for (const Claim::State state : kClaimStates) {
      count.Add({{"mode", ToString(mode)}, {"state", ToString(state)}}, IntegerSample(counts[{mode, state}]));
    }
  }
  count.MoveTo(families);
  Samples::Gauge("mooring_manager_claims_stuck", "Claims whose release has failed and is tried again.")
      .Add(IntegerSample(stuck))
      .MoveTo(families);
}

void AddRecords(RecordsStore& store, MetricFamilies& families) {
  const auto volumes = store.ListVolumes();
  const auto claims = store.ListClaims();
  const bool readable = volumes.ok() && claims.ok();
  Samples::Gauge("mooring_manager_state_up", "1 if the state could be read for this scrape.")
      .Add(BoolSample(readable))
      .MoveTo(families);
  if (!readable) {
    const absl::Status& why = volumes.ok() ? claims.status() : volumes.status();
    log::Once(log::Level::kWarning,
              "the metrics lack volumes and claims, because the state cannot be read; logged once",
              {{"cause", Message(why)}});
    return;
  }
  AddVolumes(*volumes, families);
  AddClaims(*claims, families);
}

double SecondsOf(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

void AddLease(Lease& lease, MetricFamilies& families) {
  const Clock::time_point now = Clock::now();
  const Clock::time_point until = lease.ValidUntil();
  double valid = std::numeric_limits<double>::infinity();
  if (until != Clock::time_point::max()) valid = until <= now ? 0 : SecondsOf(until - now);
  Samples::Gauge("mooring_manager_lease_valid_seconds",
                 "Time for which the lease of this host surely lasts if it is not renewed. 0: nothing new is attached. "
                 "Infinite with a state of one host.")
      .Add(valid)
      .MoveTo(families);
  Samples::Gauge("mooring_manager_lease_age_seconds", "Time since the lease of this host was taken. 0: it has none.")
      .Add(lease.Number() == 0 ? 0 : SecondsOf(now - lease.TakenAt()))
      .MoveTo(families);
}

void AddHosts(HostDirectory& hosts, MetricFamilies& families) {
  std::map<std::string, int> counts;
  for (const HostStatus& status : hosts.List()) ++counts[StateWord(status)];
  Samples samples = Samples::Gauge("mooring_manager_hosts", "Hosts that share the state, as this host sees them.");
  for (const char* const state : kHostStates) samples.Add({{"state", state}}, counts[state]);
  samples.MoveTo(families);
}

// A host that this one waits for may have left the list of hosts.
void AddRequests(HostDirectory& hosts, const ControllerSharing::Metrics& requests, MetricFamilies& families) {
  std::map<std::string, RequestSender::Counts::Waiting> by_host = requests.sent.waiting;
  for (const HostStatus& status : hosts.List()) by_host.try_emplace(status.host.name);
  Samples waiting = Samples::Gauge("mooring_manager_requests_waiting",
                                   "Controller calls that this host waits for, by the host that makes them.");
  Samples longest = Samples::Gauge("mooring_manager_requests_longest_wait_seconds",
                                   "Time for which the oldest of these calls has waited. 0: there is none.");
  for (const auto& [host, calls] : by_host) {
    waiting.Add({{"host", host}}, calls.count);
    longest.Add({{"host", host}}, SecondsOf(calls.longest));
  }
  waiting.MoveTo(families);
  longest.MoveTo(families);
  Samples::Counter("mooring_manager_requests_sent_total",
                   "Controller calls that this host asked others for. failed: without an answer.")
      .Add({{"outcome", "answered"}}, IntegerSample(requests.sent.answered))
      .Add({{"outcome", "failed"}}, IntegerSample(requests.sent.failed))
      .MoveTo(families);
  Samples::Counter("mooring_manager_requests_served_total",
                   "Controller calls that this host made for others. dropped: the request or a lease ended meanwhile.")
      .Add({{"outcome", "answered"}}, IntegerSample(requests.worked.answered))
      .Add({{"outcome", "failed"}}, IntegerSample(requests.worked.failed))
      .Add({{"outcome", "dropped"}}, IntegerSample(requests.worked.dropped))
      .MoveTo(families);
  Samples::Gauge("mooring_manager_watch_age_seconds",
                 "Time since a watch of the shared state last gave a list or a change. Without changes it grows to "
                 "five minutes; longer: the watch lags. 0 with a state of one host.")
      .Add(SecondsOf(requests.watch_age))
      .MoveTo(families);
}

void AddAttachments(const AttachmentJournal& journal, MetricFamilies& families) {
  Samples count = Samples::Gauge("mooring_manager_attachments", "Attachments on this host, by phase.");
  Samples stuck =
      Samples::Gauge("mooring_manager_attachments_stuck", "Attachments whose last mount or unmount failed.");
  const AttachmentJournal::Counts counts = journal.CountByPhase();
  for (const AttachmentRecord::Phase phase : kPhases) {
    const auto found = counts.find(phase);
    const AttachmentJournal::Count none;
    const AttachmentJournal::Count& here = found == counts.end() ? none : found->second;
    count.Add({{"phase", ToString(phase)}}, IntegerSample(here.all));
    stuck.Add({{"phase", ToString(phase)}}, IntegerSample(here.with_problem));
  }
  count.MoveTo(families);
  stuck.MoveTo(families);
}

// A kind and plugin stay at 0 when their work is done, until the next start of the manager.
void AddWork(const WorkQueue& work, MetricFamilies& families) {
  Samples waiting = Samples::Gauge("mooring_manager_work_waiting",
                                   "Work that is not done yet and is repeated until it is, by kind and plugin.");
  for (const auto& [of, count] : work.Count()) {
    waiting.Add({{"kind", of.first}, {"plugin", of.second}}, IntegerSample(count));
  }
  waiting.MoveTo(families);
}

MetricFamilies CollectAll(const MetricsPage::Sources& sources) {
  MetricFamilies families;
  AddState(sources.attachments, families);
  AddPlugins(sources.plugins, sources.supervisor, families);
  AddRecords(sources.store, families);
  AddLease(sources.store.shared().lease(), families);
  AddHosts(sources.cluster.hosts(), families);
  AddRequests(sources.cluster.hosts(), sources.cluster.requests(), families);
  AddAttachments(sources.journal, families);
  AddWork(sources.work, families);
  MetricFamilies counted = sources.counters.Collect();
  families.insert(families.end(), std::make_move_iterator(counted.begin()), std::make_move_iterator(counted.end()));
  return families;
}

}  // namespace

struct ManagerCounters::Families {
  // Every code starts at 0, so that the first failed transaction shows as an increase (metrics/call_metrics.h).
  Families() {
    for (int code = 0; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
      CommitsWith(static_cast<absl::StatusCode>(code));
    }
  }

  prometheus::Counter& CommitsWith(absl::StatusCode code) {
    return commits.Add({{"code", absl::StatusCodeToString(code)}});
  }

  prometheus::Registry registry;
  CallFamilies api_families{registry, "mooring_manager_api_call", "Calls of the manager's API"};
  CallFamilies docker_families{registry, "mooring_manager_docker_request", "Requests of Docker or Podman"};
  CallFamilies plugin_families{registry, "mooring_manager_plugin_call", "Calls to CSI plugins"};
  prometheus::Family<prometheus::Counter>& commits =
      prometheus::BuildCounter()
          .Name("mooring_manager_state_transactions_total")
          .Help("Transactions on the state, by status code. ABORTED ones conflicted with another and are repeated.")
          .Register(registry);
  prometheus::Histogram& commit_seconds = prometheus::BuildHistogram()
                                              .Name("mooring_manager_state_transaction_duration_seconds")
                                              .Help("Duration of transactions on the state, including the disk.")
                                              .Register(registry)
                                              .Add({}, kCommitSeconds);
  CallMetrics api{api_families};
  CallMetrics docker{docker_families};
  std::mutex mutex;  // guards `plugins`
  std::map<std::string, CallMetrics> plugins;
};

ManagerCounters::ManagerCounters() : families_(std::make_unique<Families>()) {}
ManagerCounters::~ManagerCounters() = default;

CallRecorder& ManagerCounters::api() { return families_->api; }
CallRecorder& ManagerCounters::docker() { return families_->docker; }

CallRecorder& ManagerCounters::plugin(const std::string& name) {
  const std::string label = name.empty() ? kUnknown : name;
  const std::lock_guard<std::mutex> lock(families_->mutex);
  const auto found = families_->plugins.find(label);
  if (found != families_->plugins.end()) return found->second;
  return families_->plugins
      .try_emplace(label, families_->plugin_families, prometheus::Labels{{"plugin", label}}, MethodsFor(name))
      .first->second;
}

void ManagerCounters::NoteCommit(absl::StatusCode code, Clock::duration took) {
  families_->CommitsWith(code).Increment();
  families_->commit_seconds.Observe(std::chrono::duration<double>(took).count());
}

std::vector<prometheus::MetricFamily> ManagerCounters::Collect() const { return families_->registry.Collect(); }

MetricsPage::MetricsPage(const Sources& sources) : exposition_([sources] { return CollectAll(sources); }) {}

}  // namespace mooring::manager

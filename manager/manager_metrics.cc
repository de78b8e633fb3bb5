#include "manager/manager_metrics.h"

#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/version.h"
#include "csi.pb.h"
#include "manager/manager.h"
#include "manager/records/names.h"
#include "metrics/call_metrics.h"
#include "metrics/exposition.h"
#include "metrics/samples.h"
#include "rpc/methods.h"

namespace mooring::manager {
namespace {

using metrics::BoolSample;
using metrics::CallFamilies;
using metrics::CallMetrics;
using metrics::IntegerSample;
using metrics::Samples;
using Families = std::vector<prometheus::MetricFamily>;

constexpr char kUnknown[] = "unknown";  // a plugin that is asked for its name
constexpr Claim::State kClaimStates[] = {Claim::State::kTaken, Claim::State::kUnpublishing, Claim::State::kNodeDetached,
                                         Claim::State::kControllerDetached};
constexpr Volume::State kVolumeStates[] = {Volume::State::kCreating, Volume::State::kReady, Volume::State::kDeleting};
constexpr AttachmentRecord::Phase kPhases[] = {AttachmentRecord::Phase::kIntent, AttachmentRecord::Phase::kMounted,
                                               AttachmentRecord::Phase::kUnmounting};

// Of a commit, which is a sync of the disk as a rule.
const prometheus::Histogram::BucketBoundaries kCommitSeconds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                                0.025,  0.05,    0.1,    0.25,  0.5,    1,     5};

std::string_view WordOf(AttachmentRecord::Phase phase) {
  switch (phase) {
    case AttachmentRecord::Phase::kIntent:
      return "intent";
    case AttachmentRecord::Phase::kMounted:
      return "mounted";
    case AttachmentRecord::Phase::kUnmounting:
      return "unmounting";
  }
  return "";
}

// Whose name is not known is asked for that, and for how it is.
std::vector<std::string> MethodsFor(const std::string& plugin) {
  const google::protobuf::FileDescriptor& file = *csi::v1::ProbeRequest::descriptor()->file();
  return plugin.empty() ? MethodsOf(*file.FindServiceByName("Identity")) : MethodsOf(file);
}

void AddState(const Parts& parts, Families& families) {
  Samples::Gauge("mooring_manager_build_info", "Always 1; the labels say what runs.")
      .Add({{"version", Version()}, {"commit", Commit()}}, 1)
      .MoveTo(families);
  Samples::Gauge("mooring_manager_restoring", "Attachments of before the start that wait for their plugin still.")
      .Add(parts.attachments->restoring())
      .MoveTo(families);
  Samples took = Samples::Gauge("mooring_manager_restore_duration_seconds",
                                "How long it took after the start until all that was attached was looked at and, where "
                                "its mount was gone, attached again. Not there before that.");
  if (const auto time = parts.attachments->restored_in()) took.Add(std::chrono::duration<double>(*time).count());
  took.MoveTo(families);
}

void AddPlugins(const Parts& parts, Families& families) {
  Samples up = Samples::Gauge("mooring_manager_plugin_up", "1: volumes of this plugin can be used on this host.");
  Samples healthy = Samples::Gauge("mooring_manager_plugin_instances_healthy", "Instances of a plugin that are well.");
  Samples expected =
      Samples::Gauge("mooring_manager_plugin_instances_expected", "Instances of a plugin that there should be.");
  for (const PluginStatus& plugin : parts.plugins->List()) {
    up.Add({{"plugin", plugin.name}}, BoolSample(plugin.schedulable()));
    for (const auto& [role, count] : {std::pair("node", plugin.nodes), std::pair("controller", plugin.controllers)}) {
      healthy.Add({{"plugin", plugin.name}, {"role", role}}, count.healthy);
      expected.Add({{"plugin", plugin.name}, {"role", role}}, count.expected);
    }
  }
  for (Samples* samples : {&up, &healthy, &expected}) samples->MoveTo(families);
  Samples restarts = Samples::Counter("mooring_manager_plugin_restarts_total",
                                      "How often a plugin that the manager runs did not start, ended or was given up.");
  for (const auto& [plugin, count] : parts.supervisor->Restarts())
    restarts.Add({{"plugin", plugin}}, IntegerSample(count));
  restarts.MoveTo(families);
}

void AddVolumes(const std::vector<Volume>& volumes, Families& families) {
  std::map<std::string, std::map<Volume::State, std::uint64_t>> counts;
  std::map<std::string, std::uint64_t> bytes;
  for (const Volume& volume : volumes) {
    ++counts[volume.plugin][volume.state];
    bytes[volume.plugin] += volume.capacity_bytes;
  }
  Samples count = Samples::Gauge("mooring_manager_volumes", "Volumes on record.");
  Samples size = Samples::Gauge("mooring_manager_volume_bytes", "Sizes of the volumes of a plugin, as it gave them.");
  for (auto& [plugin, states] : counts) {
    for (const Volume::State state : kVolumeStates) {
      count.Add({{"plugin", plugin}, {"state", ToString(state)}}, IntegerSample(states[state]));
    }
    size.Add({{"plugin", plugin}}, IntegerSample(bytes[plugin]));
  }
  count.MoveTo(families);
  size.MoveTo(families);
}

void AddClaims(const std::vector<Claim>& claims, Families& families) {
  std::map<std::pair<ClaimMode, Claim::State>, std::uint64_t> counts;
  std::uint64_t stuck = 0;
  for (const Claim& claim : claims) {
    ++counts[{claim.mode, claim.state}];
    if (!claim.problem.empty()) ++stuck;
  }
  Samples count = Samples::Gauge("mooring_manager_claims", "Claims on volumes, by how far their release has come.");
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

void AddRecords(Parts& parts, Families& families) {
  const auto volumes = parts.store.ListVolumes();
  const auto claims = parts.store.ListClaims();
  const bool readable = volumes.ok() && claims.ok();
  Samples::Gauge("mooring_manager_state_up", "1: the state could be read for this scrape.")
      .Add(BoolSample(readable))
      .MoveTo(families);
  if (!readable) {
    const absl::Status& why = volumes.ok() ? claims.status() : volumes.status();
    log::Once(log::Level::kWarning, "the metrics are not complete; this is said once", {{"cause", Message(why)}});
    return;
  }
  AddVolumes(*volumes, families);
  AddClaims(*claims, families);
}

void AddAttachments(const Parts& parts, Families& families) {
  Samples count = Samples::Gauge("mooring_manager_attachments",
                                 "Volumes attached on this host, being attached (intent) or being detached.");
  Samples stuck = Samples::Gauge("mooring_manager_attachments_stuck",
                                 "Those of them whose last try to mount or to unmount them failed.");
  const MountJournal::Counts counts = parts.journal->CountByPhase();
  for (const AttachmentRecord::Phase phase : kPhases) {
    const auto found = counts.find(phase);
    const MountJournal::Count none;
    const MountJournal::Count& here = found == counts.end() ? none : found->second;
    count.Add({{"phase", WordOf(phase)}}, IntegerSample(here.all));
    stuck.Add({{"phase", WordOf(phase)}}, IntegerSample(here.with_problem));
  }
  count.MoveTo(families);
  stuck.MoveTo(families);
  Samples::Gauge("mooring_manager_attachments_waiting",
                 "Attachments that the next try in the background is to come of.")
      .Add(parts.attachments->waiting())
      .MoveTo(families);
}

Families Look(Parts& parts) {
  Families families;
  AddState(parts, families);
  AddPlugins(parts, families);
  AddRecords(parts, families);
  AddAttachments(parts, families);
  return families;
}

}  // namespace

struct ManagerMetrics::Counted {
  // The first transaction that fails is to be an increase: metrics/call_metrics.h.
  explicit Counted(Parts& in_parts) : parts(in_parts) {
    for (int code = 0; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
      CommitsWith(static_cast<absl::StatusCode>(code));
    }
  }

  prometheus::Counter& CommitsWith(absl::StatusCode code) {
    return commits.Add({{"code", absl::StatusCodeToString(code)}});
  }

  Parts& parts;
  metrics::Exposition exposition{[this] { return Look(parts); }};
  CallFamilies api_families{exposition.registry(), "mooring_manager_api_call", "Calls of the manager's API"};
  CallFamilies docker_families{exposition.registry(), "mooring_manager_docker_request", "Requests of Docker or Podman"};
  CallFamilies plugin_families{exposition.registry(), "mooring_manager_plugin_call", "Calls to CSI plugins"};
  prometheus::Family<prometheus::Counter>& commits =
      prometheus::BuildCounter()
          .Name("mooring_manager_state_transactions_total")
          .Help("Transactions on the state, by outcome; ABORTED: another one was quicker, and it is made again.")
          .Register(exposition.registry());
  prometheus::Histogram& commit_seconds = prometheus::BuildHistogram()
                                              .Name("mooring_manager_state_transaction_duration_seconds")
                                              .Help("How long transactions on the state took, the disk included.")
                                              .Register(exposition.registry())
                                              .Add({}, kCommitSeconds);
  CallMetrics api{api_families};
  CallMetrics docker{docker_families};
  std::mutex mutex;  // of which plugins there are
  std::map<std::string, CallMetrics> plugins;
};

ManagerMetrics::ManagerMetrics(Parts& parts) : counted_(std::make_unique<Counted>(parts)) {}
ManagerMetrics::~ManagerMetrics() = default;

CallRecorder& ManagerMetrics::api() { return counted_->api; }
CallRecorder& ManagerMetrics::docker() { return counted_->docker; }

CallRecorder& ManagerMetrics::plugin(const std::string& name) {
  const std::string label = name.empty() ? kUnknown : name;
  const std::lock_guard<std::mutex> lock(counted_->mutex);
  const auto found = counted_->plugins.find(label);
  if (found != counted_->plugins.end()) return found->second;
  return counted_->plugins
      .try_emplace(label, counted_->plugin_families, prometheus::Labels{{"plugin", label}}, MethodsFor(name))
      .first->second;
}

void ManagerMetrics::NoteCommit(absl::StatusCode code, Clock::duration took) {
  counted_->CommitsWith(code).Increment();
  counted_->commit_seconds.Observe(std::chrono::duration<double>(took).count());
}

std::string ManagerMetrics::Text() const { return counted_->exposition.Text(); }

}  // namespace mooring::manager

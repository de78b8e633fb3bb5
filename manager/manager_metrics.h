// The manager's metrics (docs/operations.md), made only with --metrics-listen.
//
//   api/calls.cc, docker/, csi/recorded_channel.h, State::Commit ──▶ ManagerCounters, in memory
//   a scrape ──▶ MetricsPage::Text() ──▶ reads the records, the plugins, the attachments and the counters
#pragma once

#include <prometheus/metric_family.h>

#include <memory>
#include <string>
#include <vector>

#include "manager/attach/attachments.h"
#include "manager/cluster.h"
#include "manager/csi/csi_channel.h"
#include "manager/plugins/plugin_directory.h"
#include "manager/state/records_store.h"
#include "manager/supervisor/supervisor.h"
#include "manager/volumes/attachment_journal.h"
#include "metrics/call_recorder.h"
#include "metrics/exposition.h"

namespace mooring::manager {

// Counts calls and transactions as they happen. Safe from several threads.
class ManagerCounters {
 public:
  ManagerCounters();
  ~ManagerCounters();

  CallRecorder& api();
  CallRecorder& docker();
  CallRecorder& plugin(const std::string& name);  // calls to this plugin; empty: its name is not known yet
  void NoteCommit(absl::StatusCode code, Clock::duration took);

  std::vector<prometheus::MetricFamily> Collect() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

class MetricsPage {
 public:
  // All outlive the page.
  struct Sources {
    const ManagerCounters& counters;
    PluginDirectory& plugins;
    const Supervisor& supervisor;
    RecordsStore& store;
    Cluster& cluster;
    const AttachmentJournal& journal;
    const Attachments& attachments;
    const WorkQueue& work;
  };
  explicit MetricsPage(const Sources& sources);

  // Leaves out records that cannot be read, and sets mooring_manager_state_up to 0.
  std::string Text() const { return exposition_.Text(); }

 private:
  const metrics::Exposition exposition_;
};

}  // namespace mooring::manager

// What the manager tells of itself, docs/operations.md. Only where somebody asked for it (--metrics-listen).
//
//   api/calls.cc, docker/, csi/recorded_channel.h, state/state.h          ──▶ counted as it happens, in memory
//   a scrape ──▶ Text() ──▶ looks at the records, the plugins and the attachments
#ifndef MOORING_MANAGER_MANAGER_METRICS_H_
#define MOORING_MANAGER_MANAGER_METRICS_H_

#include <memory>
#include <string>

#include "manager/csi/csi_channel.h"
#include "metrics/call_recorder.h"

namespace mooring::manager {

struct Parts;  // manager.h

class ManagerMetrics {
 public:
  // Made before `parts` has anything in it; Text is for when all is. `parts` outlives it.
  explicit ManagerMetrics(Parts& parts);
  ~ManagerMetrics();

  CallRecorder& api();
  CallRecorder& docker();
  CallRecorder& plugin(const std::string& name);  // of the calls that are made to it; empty: nobody knows its name yet
  void NoteCommit(absl::StatusCode code, Clock::duration took);

  // The page. What cannot be looked at is left out, and the figure that says so is 0.
  std::string Text() const;

 private:
  struct Counted;
  std::unique_ptr<Counted> counted_;
};

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_MANAGER_METRICS_H_

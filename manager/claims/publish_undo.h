// Undoes publishes that this host sent for claims which another host has freed meanwhile: this machine was paused, for
// example. The unpublish of the other host may have come first, and nobody else repeats it.
#pragma once

#include "manager/claims/claim_broker.h"
#include "manager/claims/controller_publisher.h"
#include "manager/state/records_store.h"
#include "manager/work/work_queue.h"

namespace mooring::manager {

class PublishUndo {
 public:
  // All outlive it.
  PublishUndo(RecordsStore& store, ControllerPublisher& controller, WorkQueue& queue, Clock::duration first_retry)
      : store_(store),
        controller_(controller),
        first_retry_(first_retry),
        work_(queue, {.kind = "unpublish", .first_retry = first_retry}) {}

  // Unpublishes the volume, unless a claim of its node needs it published. `why`: the error of the publish; one that
  // was refused did not happen, and needs no undo. A failure is repeated in the background until it succeeds or the
  // manager ends. The caller holds the controller lock.
  void Undo(const ClaimAnswer& answer, const absl::Status& why, Clock::time_point until);

  // The same in the background, after `delay`.
  void Owe(const ClaimAnswer& answer, const absl::Status& why, Clock::duration delay);

 private:
  absl::Status Unpublish(const ClaimAnswer& answer, Clock::time_point until);

  RecordsStore& store_;
  ControllerPublisher& controller_;
  const Clock::duration first_retry_;
  WorkKind work_;  // last: its attempts use all of the above
};

}  // namespace mooring::manager

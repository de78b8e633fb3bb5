// Attachments over fakes of claims and mounts, with a journal in a temporary state.
#pragma once

#include "manager/attach/attachments.h"
#include "manager/state/sqlite_state.h"
#include "tests/fakes/counting_brokers.h"
#include "tests/manager/prelude.h"
#include "tests/support/wait_until.h"

namespace mooring::manager {

using ::mooring::testing::CallLog;
using ::mooring::testing::CountingClaims;
using ::mooring::testing::CountingMounter;

class AttachmentsFixture : public ::testing::Test {
 protected:
  AttachmentsFixture() { Start(); }

  static AttachRequest Request(const std::string& volume = "db", const std::string& allocation = "web-1") {
    AttachRequest request;
    request.volume.id = volume;
    request.plugin = "p";
    request.allocation = allocation;
    return request;
  }

  // As after a kill of the manager.
  void Restart() {
    attachments_.reset();
    Start();
  }
  void Start() {
    journal_ = *AttachmentJournal::Open(store_, "host-1");
    Attachments::Settings settings;
    settings.host = "host-1";
    settings.first_retry = settings.claim_pause = milliseconds(1);
    settings.longest_retry = milliseconds(20);
    settings.plugin_wait = milliseconds(50);
    settings.restorers = 2;
    attachments_ = std::make_unique<Attachments>(*journal_, claims_, mounter_, events_, queue_, settings);
  }
  void Restore() {
    log_.Clear();
    attachments_->Restore();
    attachments_->WaitUntilRestored(Soon());
    EXPECT_EQ(attachments_->restoring(), 0);
  }
  absl::StatusOr<AttachmentRecord> Attach(const AttachRequest& request) {
    return attachments_->Attach(request, {}, Soon());
  }
  using Failure = Attachments::Failure;
  absl::Status Detach(const std::string& allocation, const std::string& request,
                      Failure failure = Failure::kChangesNothing) {
    return attachments_->Detach(allocation, request, failure, {}, Soon());
  }
  void AttachOneInsideTheOther() {
    AttachRequest outer = Request("outer", "a");
    outer.attach_path = "/srv/db";
    AttachRequest inner = Request("inner", "b");
    inner.attach_path = "/srv/db/wal";
    ASSERT_OK(Attach(outer));
    ASSERT_OK(Attach(inner));
  }
  // Without journal, claim and mount.
  void ExpectNothingIsLeft() {
    EXPECT_THAT(journal_->All(), IsEmpty());
    EXPECT_THAT(claims_.held(), IsEmpty());
    EXPECT_EQ(mounter_.mounted_count(), 0U);
  }
  void SetPhase(const std::string& allocation, AttachmentRecord::Phase phase) {
    AttachmentRecord record = *journal_->Find(allocation, "db");
    record.phase = phase;
    ASSERT_OK(journal_->Put(record, Durability::kOrdered));
  }

  TempDir directory_;
  std::unique_ptr<State> state_ = *OpenSqliteState(directory_ / "state.db");
  RecordsStore store_{*state_};
  CallLog log_;
  CountingClaims claims_{log_, "p"};
  CountingMounter mounter_{log_};
  Events events_;
  WorkQueue queue_;
  std::unique_ptr<AttachmentJournal> journal_;
  std::unique_ptr<Attachments> attachments_;
};

}  // namespace mooring::manager

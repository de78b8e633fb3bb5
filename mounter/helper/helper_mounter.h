// The client of the mount helper: a Mounter that sends each call to the helper process (proto/mounter.proto).
//
// A call takes an idle channel, or makes one, and waits for the answer in its own thread, without a queue or lock. If
// the helper ends, another one is started at once. Its mounts stay. A call that was running is repeated if it changes
// nothing. Else it is UNAVAILABLE, because nobody knows how far it got: the next call for the same volume finds out.
//
// A call waits until the deadline of its thread (base/deadline.h), at most a minute, and then is DEADLINE_EXCEEDED. The
// thread of the helper that hangs in the kernel stays, and other threads serve other calls. An abandoned change may
// still take effect, so until it has ended no other call may change the same path. Mount, Format, Check, Grow, Copy and
// RemoveTree must not be cut short: they wait for the time limit of their programs, and a little more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter.pb.h"
#include "mounter/helper/channel.h"
#include "mounter/helper/mounter_client.h"
#include "mounter/helper/spawner.h"

namespace mooring {

class HelperMounter final : public MounterClient {
 public:
  // The first helper starts in the background: calls wait for it. `lost` is called once, from another thread, when the
  // spawner has ended. Then the running helper goes on, and none can be started after it.
  static absl::StatusOr<std::unique_ptr<HelperMounter>> Start(HelperSpawner spawner, std::function<void()> lost = {});
  ~HelperMounter() override;

  absl::Status Health() const;     // UNAVAILABLE: no helper runs at this moment; the message says why
  pid_t pid() const;               // of the helper; -1: none runs
  std::uint64_t restarts() const;  // helpers started after another one had ended
  std::size_t hanging() const;     // abandoned calls that still hang in a thread of the helper

 private:
  using Clock = std::chrono::steady_clock;

  // A channel in use by one call.
  struct Lease {
    Channel channel;
    std::uint64_t generation = 0;  // of the helper at its other end
  };

  // An abandoned call: the channel becomes readable when the helper answers after all.
  struct Hanging {
    Channel channel;
    std::string path;
    bool read_only = false;
  };

  explicit HelperMounter(HelperSpawner spawner, std::function<void()> lost)
      : spawner_(std::move(spawner)), lost_(std::move(lost)) {}

  absl::StatusOr<pb::Answer> Ask(pb::Request request, const CallPolicy& policy) override;
  absl::StatusOr<pb::Answer> AskOnce(pb::Request& request, const CallPolicy& policy, Clock::time_point deadline);
  absl::StatusOr<Lease> LeaseAndSend(pb::Request& request, const CallPolicy& policy, Clock::time_point deadline);
  absl::StatusOr<Lease> LeaseChannel(Clock::time_point deadline);
  absl::Status AwaitNext(std::uint64_t generation, Clock::time_point deadline);
  void Return(Lease lease);
  void Drop(Lease lease);
  absl::Status Abandon(Lease lease, const CallPolicy& policy, Clock::duration waited);
  absl::Status CheckHanging(const CallPolicy& policy);

  void Watch();
  bool EndIsHidden() const;
  bool AwaitEnd();  // AwaitEnd and Sleep return false if this object ends, or the spawner has ended
  bool Sleep(Clock::duration time);
  void RecordEnd();
  bool StartNext();  // false as well if no helper can be started any more
  void RecordSpawnerEnd(bool helper_too);

  HelperSpawner spawner_;
  const std::function<void()> lost_;
  UniqueFd wake_;  // eventfd(2), ends the watcher

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  HelperProcess helper_;          // pid -1: none runs
  std::uint64_t generation_ = 0;  // number of helpers that have ended
  std::uint64_t restarts_ = 0;    // number of them that were replaced
  absl::Status health_;
  bool stopping_ = false;
  std::vector<Channel> idle_;
  std::set<int> leased_;  // descriptors of the channels on which calls wait for this helper
  std::vector<Hanging> hanging_;

  std::thread watcher_;
};

}  // namespace mooring

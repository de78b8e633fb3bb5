// The Mounter that asks the helper process, proto/mounter.proto.
//
// A call takes a channel from the pool, or makes one, and waits on it in its own thread: no queue, no lock while it
// waits. A helper that ends is noticed at once and another one started; what it mounted stays. A call that it took
// along is asked again if it only looked; else it is UNAVAILABLE, for nobody knows how far it got: the next call for
// the same volume finds out.
//
// Calls wait until the thread's deadline (base/deadline.h), a minute at most, and then are DEADLINE_EXCEEDED: the
// thread of the helper that hangs in the kernel stays behind, for others to be served by its neighbours. What it was to
// change may come about later: until it has ended nothing else is changed at that path. Mount, Format, Check and Grow,
// which nobody wants cut short, wait for as long as their programs are let run, and a little more.
#ifndef MOORING_MOUNTER_HELPER_HELPER_MOUNTER_H_
#define MOORING_MOUNTER_HELPER_HELPER_MOUNTER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file/unique_fd.h"
#include "mounter.pb.h"
#include "mounter/helper/channel.h"
#include "mounter/helper/keeper.h"
#include "mounter/mounter.h"

namespace mooring {

class HelperMounter final : public Mounter {
 public:
  // The first helper comes while the caller goes on: calls wait for it. `lost` is called once, from another thread,
  // when the keeper has ended, at once: no helper comes back then, and one that is there serves on.
  static absl::StatusOr<std::unique_ptr<HelperMounter>> Start(Keeper keeper, std::function<void()> lost = {});
  ~HelperMounter() override;

  absl::Status Health() const;     // UNAVAILABLE: there is no helper at this moment, and why
  pid_t pid() const;               // the helper's; -1: there is none
  std::uint64_t restarts() const;  // helpers that took the place of one that had ended
  std::size_t hanging() const;     // calls that were given up and hold a thread of the helper in the kernel still

  absl::Status Mount(const MountRequest& request) override;
  absl::Status Bind(const BindRequest& request) override;
  absl::Status Change(const ChangeRequest& request) override;
  absl::Status Unmount(const UnmountRequest& request) override;
  absl::StatusOr<PathInfo> Find(const std::string& path) override;
  absl::StatusOr<std::vector<MountInfo>> List(const std::string& path) override;
  absl::StatusOr<StatsInfo> Stats(const std::string& path) override;

  absl::StatusOr<LoopInfo> AttachLoop(const AttachLoopRequest& request) override;
  absl::Status DetachLoop(const LoopInfo& loop) override;
  absl::Status ResizeLoop(const LoopInfo& loop) override;
  absl::Status TuneLoop(const LoopInfo& loop, const LoopTuning& tuning) override;
  absl::StatusOr<std::vector<LoopInfo>> FindLoops(const std::string& backing_file) override;

  absl::StatusOr<FilesystemInfo> Probe(const std::string& path) override;
  absl::Status Format(const std::string& path, const std::string& fs_type) override;
  absl::Status Check(const std::string& path, const std::string& fs_type) override;
  absl::Status Grow(const std::string& path, const std::string& fs_type) override;
  absl::StatusOr<std::string> Ailment(const std::string& mount_path) override;

  absl::Status Copy(const std::vector<ImageCopy>& copies) override;
  absl::Status Thaw(const std::string& image) override;
  absl::Status RemoveTree(const std::string& directory) override;
  absl::Status CheckNeeds(const Needs& needs) override;

 private:
  using Clock = std::chrono::steady_clock;

  // How a call is treated when the helper dies or hangs under it.
  struct Manner {
    const char* doing;                                        // "mount at", for messages
    const std::string& path;                                  // of which
    bool looks = false;                                       // changes nothing: may be asked twice
    std::optional<std::chrono::seconds> most = std::nullopt;  // not the deadline: this, from now on
  };

  struct Lent {
    Channel channel;
    std::uint64_t generation = 0;  // of the helper
  };

  struct Hanging {
    Channel channel;
    std::string path;
    bool looks = false;
  };

  explicit HelperMounter(Keeper keeper, std::function<void()> lost)
      : keeper_(std::move(keeper)), lost_(std::move(lost)) {}

  absl::StatusOr<pb::Answer> Ask(const pb::Request& request, const Manner& manner);
  absl::StatusOr<pb::Answer> AskOnce(const pb::Request& request, const Manner& manner, Clock::time_point deadline);
  absl::StatusOr<Lent> BorrowAndSend(const pb::Request& request, Clock::time_point deadline);
  absl::StatusOr<Lent> Borrow(Clock::time_point deadline);
  absl::Status AwaitNext(std::uint64_t generation, Clock::time_point deadline);
  void Return(Lent lent);
  void Drop(Lent lent);
  absl::Status Abandon(Lent lent, const Manner& manner, Clock::duration waited);
  absl::Status CheckHanging(const Manner& manner);

  void Watch();
  bool EndIsHidden() const;
  bool AwaitEnd();  // this and the next: false when this object is to end, or the keeper has ended
  bool Rest(Clock::duration time);
  void NoteEnd();
  bool StartNext();  // false: the same, or there will be no more
  void NoteLoss(bool helper_too);

  Keeper keeper_;
  const std::function<void()> lost_;
  UniqueFd wake_;  // eventfd(2), for the watcher to end

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  HelperProcess helper_;          // pid -1: none at this moment
  std::uint64_t generation_ = 0;  // how many helpers have ended
  std::uint64_t restarts_ = 0;    // how many of them were replaced
  absl::Status health_;
  bool stopping_ = false;
  std::vector<Channel> idle_;
  std::set<int> lent_;  // the channels on which somebody waits for this helper
  std::vector<Hanging> hanging_;

  std::thread watcher_;
};

}  // namespace mooring

#endif  // MOORING_MOUNTER_HELPER_HELPER_MOUNTER_H_

// The status of many loop devices, of which some may hang.
//
// The kernel asks the filesystem of a device's backing file for a part of the status (LOOP_GET_STATUS64 is a stat(2) of
// that file, too). Where that hangs (a dead FUSE or NFS server), so does who asked; and who wants to know of all
// devices would be held up by one that is none of his.
#ifndef MOORING_MOUNTER_LOOP_LOOP_CENSUS_H_
#define MOORING_MOUNTER_LOOP_LOOP_CENSUS_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "mounter/mounter.h"

namespace mooring {

using AskLoop = std::function<absl::StatusOr<std::optional<LoopInfo>>(unsigned number)>;  // empty: not in use

using StartAsker = std::function<void(std::function<void()>)>;  // std::system_error: there is no thread to be had

// Asks for each in another thread. One that is silent for a while (kPatience) is given up, left to its thread, and not
// asked again, in the whole process, before that has its answer: then `hung` is called instead, which must not hang.
// `start` is for tests.
absl::StatusOr<std::vector<LoopInfo>> AskLoops(const std::vector<unsigned>& numbers, const AskLoop& ask,
                                               const AskLoop& hung, const StartAsker& start = {});

}  // namespace mooring

#endif  // MOORING_MOUNTER_LOOP_LOOP_CENSUS_H_

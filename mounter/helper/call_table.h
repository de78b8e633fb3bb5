// The calls of Mounter as requests to the mount helper: one row for each. MounterClient sends a row's request, and
// AnswerTo (helper_server.h) answers it. The conversion of its arguments in wire.h is also the check of their form.
#pragma once

#include <chrono>
#include <optional>
#include <tuple>

#include "mounter.pb.h"
#include "mounter/mounter.h"

namespace mooring::calls {

struct Handling {
  const char* doing;                          // "mount at", for messages
  bool read_only;                             // changes nothing, so it may be repeated
  std::optional<std::chrono::seconds> limit;  // replaces the deadline of the thread
  bool conditional = false;                   // a change that looks before it acts; it gets the deadline
  bool never_late = false;                    // and changes nothing after the deadline, even if it hangs until then
};

constexpr Handling Reads(const char* doing) { return {doing, true, std::nullopt}; }
constexpr Handling Changes(const char* doing, std::optional<std::chrono::seconds> limit = std::nullopt) {
  return {doing, false, limit};
}
constexpr Handling Conditional(const char* doing, bool never_late) {
  return {doing, false, std::nullopt, true, never_late};
}

// mounter/helper/wire.h converts the arguments of the method to the field `arguments` of the request, and its result to
// the field `result` of the answer. Result void: the method returns absl::Status.
template <typename Method, typename Arguments, typename Result = void>
struct Call {
  pb::Request::CallCase number;
  Method method;
  Arguments* (pb::Request::*arguments)();
  Handling handling;
  Result* (pb::Answer::*result)() = nullptr;
};

template <typename Method, typename Arguments>
Call(pb::Request::CallCase, Method, Arguments* (pb::Request::*)(), Handling) -> Call<Method, Arguments>;
template <typename Method, typename Arguments, typename Result>
Call(pb::Request::CallCase, Method, Arguments* (pb::Request::*)(), Handling, Result* (pb::Answer::*)())
    -> Call<Method, Arguments, Result>;

// The time limits of the programs (mounter/filesystem/ext4_offline.cc, mounter/filesystem/filesystem_format.cc), and a
// margin. A mount may replay a journal, and growing may begin with a check.
inline constexpr std::chrono::minutes kMountLimit{10}, kFormatLimit{2};
inline constexpr std::chrono::hours kCheckLimit{13}, kGrowLimit{13 + 13};

// Bounded by the amount of data: a disk that writes 50 MB/s copies 2 TB in this time.
inline constexpr std::chrono::hours kCopyLimit{12}, kRemoveLimit{12};

// That of lvm (mounter/lvm/lvm_program.h) for each of its commands, and a margin.
inline constexpr std::chrono::minutes kLvmLimit{31};

// That of cryptsetup (mounter/encryption/cryptsetup.cc) for each of its commands, and a margin.
inline constexpr std::chrono::minutes kEncryptionLimit{20};

using pb::Answer;
using pb::Request;

inline constexpr Call kMount{Request::kMount, &Mounts::Mount, &Request::mutable_mount,
                             Changes("mount at", kMountLimit)};
inline constexpr Call kBind{Request::kBind, &Mounts::Bind, &Request::mutable_bind, Changes("mount at")};
inline constexpr Call kUnmount{Request::kUnmount, &Mounts::Unmount, &Request::mutable_unmount, Changes("unmount")};
inline constexpr Call kChange{Request::kChange, &Mounts::Change, &Request::mutable_change,
                              Changes("change the mount at")};
inline constexpr Call kFind{Request::kFind, &Mounts::Find, &Request::mutable_find, Reads("inspect"),
                            &Answer::mutable_path};
inline constexpr Call kList{Request::kList, &Mounts::List, &Request::mutable_list, Reads("list the mounts below"),
                            &Answer::mutable_mounts};
inline constexpr Call kStats{Request::kStats, &Mounts::Stats, &Request::mutable_stats, Reads("read the usage of"),
                             &Answer::mutable_stats};

inline constexpr Call kAttachLoop{Request::kAttachLoop, &LoopDevices::AttachLoop, &Request::mutable_attach_loop,
                                  Changes("attach"), &Answer::mutable_loop};
inline constexpr Call kHoldLoop{Request::kHoldLoop, &LoopDevices::HoldLoop, &Request::mutable_hold_loop,
                                Changes("hold")};
inline constexpr Call kDetachLoop{Request::kDetachLoop, &LoopDevices::DetachLoop, &Request::mutable_detach_loop,
                                  Changes("detach")};
inline constexpr Call kFlush{Request::kFlush, &LoopDevices::Flush, &Request::mutable_flush, Changes("flush")};
inline constexpr Call kHoldDevice{Request::kHoldDevice, &LoopDevices::HoldDevice, &Request::mutable_hold_device,
                                  Changes("hold")};
inline constexpr Call kReleaseDevice{Request::kReleaseDevice, &LoopDevices::ReleaseDevice,
                                     &Request::mutable_release_device, Changes("release")};
inline constexpr Call kResizeLoop{Request::kResizeLoop, &LoopDevices::ResizeLoop, &Request::mutable_resize_loop,
                                  Changes("resize")};
inline constexpr Call kTuneLoop{Request::kTuneLoop, &LoopDevices::TuneLoop, &Request::mutable_tune_loop,
                                Changes("tune")};
inline constexpr Call kFindLoops{Request::kFindLoops, &LoopDevices::FindLoops, &Request::mutable_find_loops,
                                 Reads("find the loop devices of"), &Answer::mutable_loops};

inline constexpr Call kProbe{Request::kProbe, &Filesystems::Probe, &Request::mutable_probe,
                             Reads("identify the content of"), &Answer::mutable_filesystem};
inline constexpr Call kFormat{Request::kFormat, &Filesystems::Format, &Request::mutable_format,
                              Changes("format", kFormatLimit)};
inline constexpr Call kCheck{Request::kCheck, &Filesystems::Check, &Request::mutable_check,
                             Changes("check", kCheckLimit)};
inline constexpr Call kGrow{Request::kGrow, &Filesystems::Grow, &Request::mutable_grow, Changes("grow", kGrowLimit)};
inline constexpr Call kIsInUse{Request::kIsInUse, &Filesystems::IsInUse, &Request::mutable_is_in_use,
                               Reads("find the users of"), &Answer::mutable_outcome};
inline constexpr Call kHealthProblem{Request::kHealthProblem, &Filesystems::HealthProblem,
                                     &Request::mutable_health_problem, Reads("check the health of"),
                                     &Answer::mutable_text};

inline constexpr Call kCopy{Request::kCopy, &Contents::Copy, &Request::mutable_copy, Changes("copy", kCopyLimit)};
inline constexpr Call kThaw{Request::kThaw, &Contents::Thaw, &Request::mutable_thaw, Changes("thaw")};
inline constexpr Call kCopyTree{Request::kCopyTree, &Contents::CopyTree, &Request::mutable_copy_tree,
                                Changes("copy", kCopyLimit)};
inline constexpr Call kRemoveTree{Request::kRemoveTree, &Contents::RemoveTree, &Request::mutable_remove_tree,
                                  Changes("remove", kRemoveLimit)};
inline constexpr Call kLimitDirectory{Request::kLimitDirectory, &Contents::LimitDirectory,
                                      &Request::mutable_limit_directory, Changes("limit", kRemoveLimit)};
inline constexpr Call kPrepareSubvolumes{Request::kPrepareSubvolumes, &Subvolumes::PrepareSubvolumes,
                                         &Request::mutable_prepare_subvolumes, Changes("prepare the subvolumes of")};
inline constexpr Call kMakeSubvolumes{Request::kMakeSubvolumes, &Subvolumes::MakeSubvolumes,
                                      &Request::mutable_make_subvolumes, Changes("make", kCopyLimit)};
inline constexpr Call kLimitSubvolume{Request::kLimitSubvolume, &Subvolumes::LimitSubvolume,
                                      &Request::mutable_limit_subvolume, Changes("limit")};
inline constexpr Call kRemoveSubvolume{Request::kRemoveSubvolume, &Subvolumes::RemoveSubvolume,
                                       &Request::mutable_remove_subvolume, Changes("remove", kRemoveLimit)};
inline constexpr Call kReportLvm{Request::kReportLvm, &LogicalVolumes::ReportLvm, &Request::mutable_report_lvm,
                                 Reads("look at the volume group"), &Answer::mutable_lvm};
inline constexpr Call kMakeLogicalVolume{Request::kMakeLogicalVolume, &LogicalVolumes::MakeLogicalVolume,
                                         &Request::mutable_make_logical_volume, Changes("make", kCopyLimit)};
inline constexpr Call kGrowLogicalVolume{Request::kGrowLogicalVolume, &LogicalVolumes::GrowLogicalVolume,
                                         &Request::mutable_grow_logical_volume, Changes("grow", kCopyLimit)};
inline constexpr Call kActivateLogicalVolume{Request::kActivateLogicalVolume, &LogicalVolumes::ActivateLogicalVolume,
                                             &Request::mutable_activate_logical_volume, Changes("activate", kLvmLimit)};
inline constexpr Call kNoteRawLogicalVolume{Request::kNoteRawLogicalVolume, &LogicalVolumes::NoteRawLogicalVolume,
                                            &Request::mutable_note_raw_logical_volume,
                                            Changes("note the use of", kLvmLimit)};
inline constexpr Call kRemoveLogicalVolume{Request::kRemoveLogicalVolume, &LogicalVolumes::RemoveLogicalVolume,
                                           &Request::mutable_remove_logical_volume, Changes("remove", kLvmLimit)};
inline constexpr Call kMakeEncrypted{Request::kMakeEncrypted, &EncryptedVolumes::MakeEncrypted,
                                     &Request::mutable_make_encrypted, Changes("encrypt", kCopyLimit)};
inline constexpr Call kReportEncrypted{Request::kReportEncrypted, &EncryptedVolumes::ReportEncrypted,
                                       &Request::mutable_report_encrypted, Reads("read the header of"),
                                       &Answer::mutable_encrypted};
inline constexpr Call kOpenEncrypted{Request::kOpenEncrypted, &EncryptedVolumes::OpenEncrypted,
                                     &Request::mutable_open_encrypted, Changes("open", kEncryptionLimit),
                                     &Answer::mutable_encrypted};
inline constexpr Call kCloseEncrypted{Request::kCloseEncrypted, &EncryptedVolumes::CloseEncrypted,
                                      &Request::mutable_close_encrypted, Changes("close")};
inline constexpr Call kResizeEncrypted{Request::kResizeEncrypted, &EncryptedVolumes::ResizeEncrypted,
                                       &Request::mutable_resize_encrypted, Changes("resize", kEncryptionLimit)};
inline constexpr Call kNoteRawEncrypted{Request::kNoteRawEncrypted, &EncryptedVolumes::NoteRawEncrypted,
                                        &Request::mutable_note_raw_encrypted,
                                        Changes("note the use of", kEncryptionLimit)};
inline constexpr Call kNeeds{Request::kNeeds, &Preflight::CheckNeeds, &Request::mutable_needs,
                             Reads("check the host at")};

inline constexpr Call kBindIf{Request::kBindIf, &Mounter::BindIf, &Request::mutable_bind_if,
                              Conditional("mount at", true), &Answer::mutable_outcome};
inline constexpr Call kUnmountIf{Request::kUnmountIf, &Mounter::UnmountIf, &Request::mutable_unmount_if,
                                 Conditional("unmount", false), &Answer::mutable_outcome};
inline constexpr Call kExamine{Request::kExamine, &Mounter::Examine, &Request::mutable_examine, Reads("inspect"),
                               &Answer::mutable_examination};

// All rows. The server answers only these.
inline constexpr std::tuple kAll{kMount,
                                 kBind,
                                 kUnmount,
                                 kChange,
                                 kFind,
                                 kList,
                                 kStats,
                                 kAttachLoop,
                                 kDetachLoop,
                                 kResizeLoop,
                                 kTuneLoop,
                                 kFindLoops,
                                 kProbe,
                                 kFormat,
                                 kCheck,
                                 kGrow,
                                 kHealthProblem,
                                 kCopy,
                                 kThaw,
                                 kRemoveTree,
                                 kNeeds,
                                 kBindIf,
                                 kUnmountIf,
                                 kExamine,
                                 kHoldLoop,
                                 kFlush,
                                 kIsInUse,
                                 kPrepareSubvolumes,
                                 kMakeSubvolumes,
                                 kLimitSubvolume,
                                 kRemoveSubvolume,
                                 kLimitDirectory,
                                 kCopyTree,
                                 kReportLvm,
                                 kMakeLogicalVolume,
                                 kGrowLogicalVolume,
                                 kActivateLogicalVolume,
                                 kRemoveLogicalVolume,
                                 kNoteRawLogicalVolume,
                                 kMakeEncrypted,
                                 kReportEncrypted,
                                 kOpenEncrypted,
                                 kCloseEncrypted,
                                 kResizeEncrypted,
                                 kNoteRawEncrypted,
                                 kHoldDevice,
                                 kReleaseDevice};

}  // namespace mooring::calls

// Reads /proc and sysfs without the code under test.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace mooring::testing {

// A line of /proc/self/mountinfo, proc(5).
struct MountLine {
  std::string id, parent;
  std::string root, target, fs_type, source;
  std::vector<std::string> options;        // of the mount: "ro", "nosuid", "relatime"
  std::vector<std::string> super_options;  // of the filesystem
  std::vector<std::string> propagation;    // "shared:1", "master:2"; empty: private
  bool Has(const std::string& option) const;
  bool SuperHas(const std::string& option) const;
};

std::vector<MountLine> Mounts();                              // in mount order
std::vector<MountLine> MountsBelow(const std::string& path);  // also at it
std::vector<MountLine> MountsAt(const std::string& path);     // more than one: stacked

// Whether a mount stands on another at `path`. The kernel gives the table in pieces, so a removed mount and its
// successor may both be in it. Counting the mounts at `path` would be wrong then; this is not.
bool IsStacked(const std::string& path);

void ExpectNoCopies(const std::string& path);  // fails the test if two mounts are at one place at or below `path`

std::optional<MountLine> MountAt(const std::string& path);  // fails the test if there are several

struct LoopLine {
  std::string device, backing_file;
  bool read_only = false, auto_clear = false;
};
std::vector<LoopLine> Loops();  // without the holds of raw devices: mounter/loop/raw_device.h
std::vector<LoopLine> LoopsOver(const std::string& path_prefix);

// Detaches the device if it still has this backing file. `losetup -d` would also detach a file of another process that
// has taken the number since.
void DetachLoop(const LoopLine& loop);

bool HasCapSysResource();  // growing a mounted ext4 needs it

int TryWrite(const std::string& path, const std::string& text);  // 0 or the errno of open, write or fsync
std::string ReadFile(const std::string& path);                   // "" where it cannot be read
int Run(const std::string& shell_command);                       // its exit status
bool Runs(pid_t pid);                                            // false for a zombie

// A field of /proc/PID/status, such as "CapEff". Empty: the process has ended.
std::string StatusField(pid_t pid, const std::string& key);
std::string FieldOf(const std::string& status, const std::string& key);

}  // namespace mooring::testing

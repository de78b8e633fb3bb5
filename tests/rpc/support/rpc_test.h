// The fixture of all tests here: a plugin in a temporary directory, a client, and the paths that orchestrators use.
// World() describes everything that a call could change. It proves that a refused call changed nothing.
//
// At the end of a test, the plugin unpublishes, unstages and deletes all that is left. Then nothing may be left.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <source_location>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/driver.h"
#include "tests/rpc/support/plugin_process.h"
#include "tests/support/kernel.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace mooring::testing {

// Short names for the tests that include this header.
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using ::testing::AllOf, ::testing::AnyOf, ::testing::Contains, ::testing::ContainsRegex, ::testing::ElementsAre;
using ::testing::HasSubstr, ::testing::IsEmpty, ::testing::IsSupersetOf, ::testing::MatchesRegex, ::testing::Not;
using ::testing::Pair, ::testing::PrintToString, ::testing::SizeIs, ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

inline constexpr char kNode[] = "node-1";

class RpcTest : public ::testing::Test {
 protected:
  RpcTest();
  void SetUp() override { Start(); }
  void TearDown() override;

  void Start();                                          // and connects
  void Restart(int signal);                              // SIGTERM or SIGKILL, then Start
  void StopPlugin();                                     // SIGTERM: it must end with status 0
  void ForgetRecords();                                  // deletes node.db, between two processes
  void KillAndForget();                                  // SIGKILL, ForgetRecords, then Start
  void RestartWithPath(const std::string& path);         // the plugin's $PATH; "": the usual one
  void AddFlags(const std::vector<std::string>& flags);  // for the next start
  // Restarts the plugin with a creation to finish, and holds the lock of that volume's image. The start waits until the
  // lock is released, 10 s at most (kHelperEnds). Returns as soon as Probe is answered.
  UniqueFd RestartHeldUp();

  void RestartWith(const std::vector<std::string>& flags);  // AddFlags, then SIGTERM and Start

  Answer<csi::v1::ProbeResponse> Probe();  // on a new connection
  bool IsReady();                          // as Probe says
  // How often the piece is in the plugin's log after the offset `from`.
  int CountInLog(const std::string& piece, std::size_t from = 0) const;
  bool HasLandlock() const { return CountInLog("no Landlock") == 0; }  // the running plugin

  PluginProcess& plugin() { return plugin_; }
  Driver& driver() { return driver_; }
  const TempDir& dir() const { return dir_; }
  std::string state_dir() const { return dir_ / "state"; }

  // Lets this group make a socket in the temporary directory. If MOORING_TEST_USER=UID:GID is set, the fixture starts
  // all plugins with --user and does this by itself.
  void AllowSocketsOf(gid_t group);

  // Each returns the id of a new volume.
  std::string Created(const VolumeCapability& capability = Mount(), std::int64_t bytes = kVolumeBytes);
  std::string Created(const CreateVolumeRequest& request);
  std::string Staged(const VolumeCapability& capability = Mount(), std::int64_t bytes = kVolumeBytes);
  // At Staging(id) and `target`.
  std::string Published(const std::string& target, const VolumeCapability& capability = Mount(),
                        std::int64_t bytes = kVolumeBytes);
  void StageAndPublish(const std::string& id, const std::string& target, const VolumeCapability& capability = Mount());
  void UnpublishAndUnstage(const std::string& id, const std::string& target);
  std::string Snapped(const std::string& name, const std::string& volume);  // the snapshot's id
  std::string Image(const std::string& id) const { return state_dir() + "/volumes/" + id + ".img"; }

  // As Nomad makes them: the staging directory exists, and the parent directory of the target.
  std::string Staging(const std::string& volume, const std::string& usage = "rw-file-system-single-node-writer");
  std::string Target(const std::string& allocation, const std::string& volume = "v");

  std::string MakeDirectories(const std::string& below_dir);

  // The mounts below the directory, the loop devices, all files with owner, mode and size, the records of the node, and
  // the catalog. A call that changes nothing leaves it equal.
  std::string World();

  // `what` fails with this code and a message with `piece`, and World() stays as it was. It is a request, or a function
  // that makes a call.
  template <typename What>
  void ExpectRefused(const What& what, Code code, const std::string& piece,
                     const std::source_location& where = std::source_location::current()) {
    if constexpr (std::is_base_of_v<google::protobuf::Message, What>) {
      Refused([&] { return driver_.Send(what).status; }, code, piece, where);
    } else {
      Refused([&] { return StatusOf(what()); }, code, piece, where);
    }
  }

  // Mounts that the test makes. They are unmounted at its end.
  void MountTmpfs(const std::string& path, const std::string& options = "size=1m");
  void ShareDirectory();                     // the temporary directory becomes a shared mount, as / is under systemd
  void AllowMount(const std::string& path);  // the test mounts something here: that is no failure at the end
  std::string Wrapper(const std::string& program, const std::string& script);  // a PATH where it is this script
  std::string FailingMkfs();                                                   // a PATH where mkfs.ext4 fails
  std::vector<pid_t> ToolRuns(const std::string& program) const;  // the processes that this program has been so far
  int MkfsRuns() const { return static_cast<int>(ToolRuns("mkfs.ext4").size()); }
  static int Shell(const std::string& command) { return testing::Run(command); }  // gtest has a Run of its own
  std::string AttachLoop(const std::string& file);                                // "/dev/loop3"; the test detaches it
  std::vector<LoopLine> LoopsHere() const;  // over files of the temporary directory, and those stacked on them
  void ExpectNoLoops();                     // within the patience of Eventually
  std::string RawMounts() const;            // mountinfo with its ids, below the temporary directory
  // Patient, because only a test that fails waits for so long.
  static bool Eventually(const std::function<bool()>& holds, milliseconds patience = std::chrono::seconds(30)) {
    return WaitUntil(holds, patience);
  }

 private:
  friend class HeldTool;

  void Refused(const std::function<absl::Status()>& call, Code code, const std::string& piece,
               const std::source_location& where);
  void UndoCalls();
  void RemoveRemains();

  TempDir dir_;
  PluginProcess plugin_;
  Driver driver_;
  std::vector<std::string> own_mounts_;
  int volumes_ = 0;
};

// Ids of no volume: unknown ones, and texts that are no ids.
std::vector<std::string> StrangeIds();

std::uint64_t DeviceBytes(const std::string& device);                      // "/dev/loop3", from sysfs
std::uint64_t MountedBytes(const std::string& path);                       // statvfs
std::string RunOutput(const std::string& shell_command);                   // its standard output
struct stat StatOf(const std::string& path);                               // lstat(2), which must succeed
std::string NameOfRow(const ::testing::TestParamInfo<const char*>& row);   // the parameter itself
std::string MountOrBlock(const ::testing::TestParamInfo<bool>& is_block);  // "Mount" or "Block"

// All rows that a statement gives on one of the plugin's databases, columns joined by '|'.
std::vector<std::string> Rows(const std::string& database, const std::string& sql);

}  // namespace mooring::testing

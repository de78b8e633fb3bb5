// The fixture of all tests here: a plugin of the test's own in a temporary directory, a client, the paths that
// orchestrators use, and a picture of the world to prove that a refused call changed nothing.
//
// At the end whatever was published, staged and created is taken back through the plugin, and nothing may be left.
#ifndef MOORING_TESTS_RPC_SUPPORT_RPC_TEST_H_
#define MOORING_TESTS_RPC_SUPPORT_RPC_TEST_H_

#include <gmock/gmock.h>

#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include "base/file/unique_fd.h"
#include "tests/rpc/support/driver.h"
#include "tests/rpc/support/plugin_process.h"
#include "tests/support/kernel.h"
#include "tests/support/temp_dir.h"

namespace mooring::testing {

inline constexpr char kNode[] = "node-1";

class RpcTest : public ::testing::Test {
 protected:
  RpcTest();
  void SetUp() override { Start(); }
  void TearDown() override;

  void Start();              // and connects
  void Restart(int signal);  // SIGTERM or SIGKILL, then Start
  void ForgetRecords();      // node.db is lost; between two processes
  // Restarts the plugin with a creation to finish, and holds the lock of that volume's image. The start waits until the
  // lock is released, 10 s at most (kHelperEnds). Returns as soon as Probe is answered.
  UniqueFd RestartHeldUp();

  PluginProcess& plugin() { return plugin_; }
  Driver& driver() { return driver_; }
  const TempDir& dir() const { return dir_; }
  std::string state_dir() const { return dir_ / "state"; }

  // The temporary directory is a place where this group may make its socket. With MOORING_TEST_USER=UID:GID in the
  // environment all plugins are started with --user, and it is.
  void LetIn(gid_t group);

  // A new volume's id.
  std::string Created(const VolumeCapability& capability = Mount(), std::int64_t bytes = kVolumeBytes);
  std::string Image(const std::string& id) const { return state_dir() + "/volumes/" + id + ".img"; }

  // As Nomad makes them: the staging directory is there, of the target only the parent.
  std::string Staging(const std::string& volume, const std::string& usage = "rw-file-system-single-node-writer");
  std::string Target(const std::string& allocation, const std::string& volume = "v");

  std::string MakeDirectories(const std::string& below_dir);

  // What is mounted below the directory, the loop devices, all files with owner, mode and size, the node's records,
  // the catalog. Equal before and after what changed nothing.
  std::string World();

  // `call` fails like this, and the world is as it was.
  void Refused(const std::function<absl::Status()>& call, Code code, const std::string& piece,
               const std::source_location& where = std::source_location::current());
  template <typename Call>
  void ExpectRefused(Call call, Code code, const std::string& piece,
                     const std::source_location& where = std::source_location::current()) {
    Refused([&] { return StatusOf(call()); }, code, piece, where);
  }

  // Mounts of the test's own, gone at its end.
  void MountTmpfs(const std::string& path, const std::string& options = "size=1m");
  void ShareDirectory();                  // the temporary directory becomes a shared mount, as / is under systemd
  void Forgive(const std::string& path);  // mounted by the test: taken away at the end, no failure
  std::string Wrapper(const std::string& program, const std::string& script);  // a PATH where it is this script
  std::string SlowTool(const std::string& program, double seconds);            // a PATH where it begins that much later
  std::string SlowMkfs(double seconds) { return SlowTool("mkfs.ext4", seconds); }
  std::string FailingMkfs();                                      // a PATH where mkfs.ext4 fails
  std::vector<pid_t> ToolRuns(const std::string& program) const;  // the processes that this program has been so far
  int MkfsRuns() const { return static_cast<int>(ToolRuns("mkfs.ext4").size()); }
  static int Shell(const std::string& command) { return testing::Run(command); }  // gtest has a Run of its own
  std::vector<LoopLine> LoopsHere() const;  // over files of the temporary directory, and those stacked on them
  std::string RawMounts() const;            // mountinfo with its ids, below the temporary directory
  bool Eventually(const std::function<bool()>& holds, std::chrono::milliseconds patience = std::chrono::seconds(3));

 private:
  void TakeBack();
  void SweepUp();

  TempDir dir_;
  PluginProcess plugin_;
  Driver driver_;
  std::vector<std::string> own_mounts_;
  int volumes_ = 0;
};

// Ids that are no volume: unknown ones, and such as could never be one.
std::vector<std::string> StrangeIds();

std::uint64_t DeviceBytes(const std::string& device);     // "/dev/loop3", from sysfs
std::uint64_t MountedBytes(const std::string& path);      // statvfs
std::string RunOutput(const std::string& shell_command);  // its standard output

// All rows that a statement gives on one of the plugin's databases, columns joined by '|'.
std::vector<std::string> Rows(const std::string& database, const std::string& sql);

}  // namespace mooring::testing

#endif  // MOORING_TESTS_RPC_SUPPORT_RPC_TEST_H_

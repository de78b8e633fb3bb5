// mooring-bench PLUGIN DIRECTORY [MOUNTS...]
//
// Measures the calls of the node service, through gRPC on a Unix socket and the mount helper. It does so with 0 and
// with MOUNTS mounts in the namespace (default: 1,000, 10,000 and 30,000). The same loop also measures the floor of
// each call: an empty gRPC call and the system calls that every implementation needs. It prints p50 and p99 in
// microseconds, and at the end the goals.
//
// mooring-bench --against DIRECTORY SOCKET
// mooring-bench --reference DIRECTORY PLUGIN REFERENCE-DRIVER [ARGUMENT...]
// mooring-bench --kernels DIRECTORY PLUGIN WITHOUT MOUNTS
//
// Measures one driver or compares several: bench/comparison.h. Every DIRECTORY is empty at the start.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/file/unique_fd.h"
#include "bench/comparison.h"
#include "bench/driver.h"
#include "bench/plugin_client.h"
#include "bench/rate.h"
#include "bench/report.h"
#include "bench/samples.h"

namespace mooring::bench {
namespace {

constexpr int kPairs = 1000;  // of publish and unpublish
constexpr int kStages = 40;   // each of a fresh volume
constexpr int kCreates = 100;
constexpr int kStarts = 20;  // of a plugin
constexpr int kClients = 8;
constexpr std::chrono::seconds kCrowded{3};

// The minimum of a publish: a copy of the staged mount with its flags, at a directory created for it.
void BareBind(const std::string& source, const std::string& target) {
  Check(::mkdir(target.c_str(), 0750) == 0, "mkdir");
  const UniqueFd tree(::open_tree(AT_FDCWD, source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  Check(tree.ok(), "open_tree");
  mount_attr attributes = {};
  attributes.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
  Check(::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) == 0, "mount_setattr");
  Check(::move_mount(tree.get(), "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) == 0, "move_mount");
}

void BareUnmount(const std::string& target) {
  Check(::umount2(target.c_str(), UMOUNT_NOFOLLOW) == 0, "umount2");
  Check(::rmdir(target.c_str()) == 0, "rmdir");
}

void MeasurePublishing(PluginClient& client, const Driver& here, int mounts, Report& report) {
  Samples probe, floor_publish, floor_unpublish, publish, unpublish, stats;
  const std::string staging = here / "staging/published";
  const std::string target = here / "targets/published";
  const std::string bare = here / "targets/bare";
  ::mkdir(staging.c_str(), 0700);
  const std::string id = client.Create("published", "ext4");
  client.Stage(id, staging);
  for (int i = 0; i < kPairs; ++i) {
    probe.Time([&] { client.Probe(); });
    publish.Time([&] { client.Publish(id, staging, target, i % 2 == 0); });
    floor_publish.Time([&] {
      client.Probe();
      BareBind(staging, bare);
    });
    stats.Time([&] { client.Stats(id, target); });
    unpublish.Time([&] { client.Unpublish(id, target); });
    floor_unpublish.Time([&] {
      client.Probe();
      BareUnmount(bare);
    });
  }
  client.Unstage(id, staging);
  client.Delete(id);
  ::rmdir(staging.c_str());
  report.Add(mounts, kProbe, probe);
  report.Add(mounts, kFloorPublish, floor_publish);
  report.Add(mounts, kPublish, publish);
  report.Add(mounts, kFloorUnpublish, floor_unpublish);
  report.Add(mounts, kUnpublish, unpublish);
  report.Add(mounts, kStats, stats);
  if (mounts > 0) return;
  report.AddFigure("publish, in empty calls", publish.At(0.5) / probe.At(0.5), "x", 2.5);
  report.AddFigure("unpublish, in empty calls", unpublish.At(0.5) / probe.At(0.5), "x", 2.5);
  report.AddFigure("stats, in empty calls", stats.At(0.5) / probe.At(0.5), "x", 2);
}

void MeasureStaging(PluginClient& client, const Driver& here, const std::string& fs_type, int mounts, Report& report) {
  Samples fresh, formatted, stage, unstage;
  const std::string staging = here / "staging/volume";
  const std::string target = here / "targets/volume";
  ::mkdir(staging.c_str(), 0700);
  for (int i = 0; i < kStages; ++i) {
    const std::string id = client.Create(fmt::format("stage-{}-{}", fs_type, i), fs_type);
    fresh.Time([&] {
      client.Stage(id, staging);
      client.Publish(id, staging, target, false);
    });
    client.Unpublish(id, target);
    client.Unstage(id, staging);
    const Samples::Clock::time_point start = Samples::Clock::now();
    client.Stage(id, staging);
    stage.Add(Samples::Clock::now() - start);
    client.Publish(id, staging, target, false);
    formatted.Add(Samples::Clock::now() - start);
    client.Unpublish(id, target);
    unstage.Time([&] { client.Unstage(id, staging); });
    client.Delete(id);
  }
  ::rmdir(staging.c_str());
  report.Add(mounts, "stage + publish fresh 1 GiB " + fs_type, fresh);
  report.Add(mounts, "stage + publish formatted " + fs_type, formatted);
  report.Add(mounts, "stage formatted " + fs_type, stage);
  report.Add(mounts, "unstage " + fs_type, unstage);
}

void MeasureCreating(PluginClient& client, Report& report) {
  Samples probe, create, remove;
  for (int i = 0; i < kCreates; ++i) {
    std::string id;
    probe.Time([&] { client.Probe(); });
    create.Time([&] { id = client.Create("created", "ext4"); });
    remove.Time([&] { client.Delete(id); });
  }
  report.Add(0, "create 1 GiB ext4", create);
  report.Add(0, "delete 1 GiB ext4", remove);
  const double empty = probe.At(0.5);
  report.AddFigure("create, in empty calls", create.At(0.5) / empty, "x", 6);
  report.AddFigure("delete, in empty calls", remove.At(0.5) / empty, "x", 10);
  report.AddFigure("delete, in creates", remove.At(0.5) / create.At(0.5), "x", 2);
}

void MeasureCrowd(const Driver& here, Report& report) {
  report.AddFigure("publish + unpublish pairs, 8 clients", PairsASecond(here, kClients, kCrowded), "a second", 5000,
                   true);
}

void MeasureStart(const std::string& directory, const Command& plugin, Report& report) {
  TimeToFirstAnswer(directory, plugin);  // creates the databases, which waits for the disk
  Samples starts;
  for (int i = 0; i < kStarts; ++i) starts.Add(TimeToFirstAnswer(directory, plugin));
  report.AddFigure("exec to first answer, p50", starts.At(0.5) / 1000, "ms", 6);
}

void MeasureMemory(const Driver& here, Report& report) {
  const Memory memory = here.IdleMemory();
  report.AddFigure("idle memory, RSS of all processes", memory.resident_mib, "MiB", 12);
  report.AddFigure("idle memory, shared pages once (PSS)", memory.proportional_mib, "MiB", 12);
}

void Run(const std::string& plugin, const std::string& directory, const std::vector<int>& counts) {
  const Driver here(directory, PluginCommand(plugin));
  OtherMounts others(here / "others");
  Report report;
  fmt::print("start and idle\n");
  MeasureMemory(here, report);
  MeasureStart(here / "start", PluginCommand(plugin), report);
  PluginClient client(here.socket());
  client.AwaitReady();
  for (const int mounts : counts) {
    others.FillTo(mounts);
    fmt::print("{} mounts{:>46} {:>9}\n", mounts, "p50 us", "p99 us");
    MeasurePublishing(client, here, mounts, report);
    for (const char* fs_type : {"ext4", "xfs", "btrfs"}) MeasureStaging(client, here, fs_type, mounts, report);
    if (mounts == 0) {
      MeasureCreating(client, report);
      MeasureCrowd(here, report);
    }
    std::fflush(stdout);
  }
  report.PrintGoals();
}

}  // namespace
}  // namespace mooring::bench

int main(int argc, char** argv) {
  using namespace mooring::bench;
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as in the plugin
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string mode = words.empty() ? "" : words[0];
  try {
    if (mode == "--against" && words.size() == 3) {
      MeasureOther(words[1], words[2]);
    } else if (mode == "--reference" && words.size() >= 4) {
      CompareWithReference(words[1], words[2], Command(words.begin() + 3, words.end()));
    } else if (mode == "--kernels" && words.size() == 5) {
      CompareKernels(words[1], words[2], words[3], std::stoi(words[4]));
    } else if (words.size() >= 2 && !mode.starts_with("-")) {
      std::vector<int> counts = {0};
      for (std::size_t i = 2; i < words.size(); ++i) counts.push_back(std::stoi(words[i]));
      if (words.size() == 2) counts = {0, 1000, 10000, 30000};
      Run(words[0], words[1], counts);
    } else {
      fmt::print(stderr, "usage: see the head of bench/main.cc\n");
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "mooring-bench: {}\n", error.what());
    return 1;
  }
}

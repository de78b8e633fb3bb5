// mooring-bench PLUGIN DIRECTORY: what the calls of the node cost, through gRPC on a unix socket, at 0, 1,000 and
// 10,000 mounts; beside them, in the same run, what gRPC alone costs (Probe) and what the bare system calls cost.
// Microseconds, p50 and p99.
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/plugin_client.h"
#include "bench/surroundings.h"

namespace {

using mooring::bench::Check;
using mooring::bench::PluginClient;
using mooring::bench::Surroundings;
using Clock = std::chrono::steady_clock;

constexpr int kPairs = 1000;  // of publish and unpublish
constexpr int kStages = 60;   // of a fresh volume each

class Samples {
 public:
  void Time(const std::function<void()>& work) {
    const Clock::time_point start = Clock::now();
    work();
    micros_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  double At(double part) {
    std::sort(micros_.begin(), micros_.end());
    return micros_[static_cast<std::size_t>(part * static_cast<double>(micros_.size() - 1))];
  }

 private:
  std::vector<double> micros_;
};

void Print(const std::string& what, Samples& samples) {
  fmt::print("  {:<44} {:>9.0f} {:>9.0f}\n", what, samples.At(0.5), samples.At(0.99));
}

void MeasureFloors(PluginClient& client, const Surroundings& here) {
  Samples probe;
  Samples bind;
  Samples unmount;
  for (int i = 0; i < kPairs; ++i) probe.Time([&] { client.Probe(); });
  const std::string source = here / "staging";
  const std::string target = here / "targets/raw";
  ::mkdir(target.c_str(), 0700);
  for (int i = 0; i < kPairs; ++i) {
    bind.Time([&] { Check(::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) == 0, "bind"); });
    unmount.Time([&] { Check(::umount2(target.c_str(), UMOUNT_NOFOLLOW) == 0, "unmount"); });
  }
  ::rmdir(target.c_str());
  Print("gRPC alone (Probe)", probe);
  Print("mount(2) MS_BIND alone", bind);
  Print("umount2(2) alone", unmount);
}

void MeasureStaging(PluginClient& client, const Surroundings& here, const std::string& fs_type) {
  Samples fresh;
  Samples formatted;
  Samples unstage;
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
    formatted.Time([&] {
      client.Stage(id, staging);
      client.Publish(id, staging, target, false);
    });
    client.Unpublish(id, target);
    unstage.Time([&] { client.Unstage(id, staging); });
    client.Delete(id);
  }
  ::rmdir(staging.c_str());
  Print("stage + publish, fresh 1 GiB " + fs_type, fresh);
  Print("stage + publish, formatted " + fs_type, formatted);
  Print("unstage " + fs_type, unstage);
}

void MeasurePublishing(PluginClient& client, const Surroundings& here) {
  Samples publish;
  Samples unpublish;
  Samples stats;
  const std::string staging = here / "staging/published";
  const std::string target = here / "targets/published";
  ::mkdir(staging.c_str(), 0700);
  const std::string id = client.Create("published", "ext4");
  client.Stage(id, staging);
  for (int i = 0; i < kPairs; ++i) {
    publish.Time([&] { client.Publish(id, staging, target, i % 2 == 0); });
    stats.Time([&] { client.Stats(id, target); });
    unpublish.Time([&] { client.Unpublish(id, target); });
  }
  client.Unstage(id, staging);
  client.Delete(id);
  ::rmdir(staging.c_str());
  Print("publish", publish);
  Print("unpublish", unpublish);
  Print("stats", stats);
}

void Run(const std::string& plugin, const std::string& directory) {
  Surroundings here(plugin, directory);
  PluginClient client(here.socket());
  for (const int mounts : {0, 1000, 10000}) {
    here.FillTo(mounts);
    fmt::print("{} mounts{:>48} {:>9}\n", mounts, "p50 us", "p99 us");
    MeasureFloors(client, here);
    MeasurePublishing(client, here);
    for (const char* fs_type : {"ext4", "xfs"}) MeasureStaging(client, here, fs_type);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: mooring-bench PATH-OF-MOORING-PLUGIN EMPTY-DIRECTORY\n");
    return 2;
  }
  try {
    Run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "mooring-bench: {}\n", error.what());
    return 1;
  }
}

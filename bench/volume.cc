#include "bench/volume.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <stdexcept>

namespace mooring::bench {
namespace {

// CreateVolume with the name of a volume that is there returns that one, which would be deleted here.
std::string UnusedName(const std::string& name) {
  static const unsigned kOfThisRun = std::random_device()();
  return fmt::format("mooring-bench-{:08x}-{}", kOfThisRun, name);
}

}  // namespace

Volume::Volume(PluginClient& client, const Driver& driver, const std::string& name, bool stages)
    : client_(client),
      name_(UnusedName(name)),
      staging_(stages ? driver / ("staging/" + name) : ""),
      target_(driver / ("targets/" + name)) {
  if (stages) Check(::mkdir(staging_.c_str(), 0700) == 0 || errno == EEXIST, staging_);
}

Volume::~Volume() {
  const auto take_back = [](bool left, const auto& call) {
    if (!left) return;
    try {
      call();
    } catch (const std::runtime_error&) {  // the error that led here is the one to report
    }
  };
  take_back(published_, [&] { Unpublish(); });
  take_back(staged_, [&] { Unstage(); });
  take_back(!id_.empty(), [&] { Delete(); });
  if (!staging_.empty()) ::rmdir(staging_.c_str());
}

void Volume::Stage() {
  staged_ = true;
  client_.Stage(id_, staging_);
}

void Volume::Publish() {
  published_ = true;
  client_.Publish(id_, staging_, target_, false);
}

void Volume::Unpublish() {
  client_.Unpublish(id_, target_);
  published_ = false;
}

void Volume::Unstage() {
  client_.Unstage(id_, staging_);
  staged_ = false;
}

void Volume::Delete() {
  client_.Delete(id_);
  id_.clear();
}

}  // namespace mooring::bench

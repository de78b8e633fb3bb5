// A volume in a driver. Each function makes the call of its name.
#pragma once

#include <string>

#include "bench/driver.h"
#include "bench/plugin_client.h"

namespace mooring::bench {

// Takes back what is left at its end, so that nothing stays in the driver when a run fails. No two volumes of a driver
// have the same name at a time. The client outlives the volume.
class Volume {
 public:
  // Without `stages` it is published without a staging path.
  Volume(PluginClient& client, const Driver& driver, const std::string& name, bool stages);
  Volume(const Volume&) = delete;
  Volume& operator=(const Volume&) = delete;
  ~Volume();

  void Create() { id_ = client_.Create(name_, ""); }
  void Stage();
  void Publish();
  void Stats() { client_.Stats(id_, target_); }
  void Unpublish();
  void Unstage();
  void Delete();

 private:
  PluginClient& client_;
  std::string name_, staging_, target_, id_;
  bool staged_ = false, published_ = false;
};

}  // namespace mooring::bench

// The measured calls, on a real socket. If a call fails, it throws std::runtime_error with the message of the driver.
#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>

#include "csi.grpc.pb.h"

namespace mooring::bench {

// The calls that a driver offers beside Probe, from its capabilities.
struct Offers {
  bool create_delete = false, node = false, stage_unstage = false, stats = false;
};

// A client with a connection of its own.
class PluginClient {
 public:
  explicit PluginClient(const std::string& socket);

  void AwaitReady();
  Offers Ask();
  void Probe();
  std::string Create(const std::string& name, const std::string& fs_type);
  void Delete(const std::string& id);
  void Stage(const std::string& id, const std::string& path);
  void Unstage(const std::string& id, const std::string& path);
  void Publish(const std::string& id, const std::string& staging, const std::string& target, bool read_only);
  void Unpublish(const std::string& id, const std::string& target);
  void Stats(const std::string& id, const std::string& path);

 private:
  template <typename Request>
  void SetContext(const std::string& id, Request& request) const;

  std::map<std::string, csi::v1::Volume> volumes_;  // created here and not deleted, by id
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<csi::v1::Identity::Stub> identity_;
  std::unique_ptr<csi::v1::Controller::Stub> controller_;
  std::unique_ptr<csi::v1::Node::Stub> node_;
};

}  // namespace mooring::bench

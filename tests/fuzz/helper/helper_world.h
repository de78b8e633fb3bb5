// The server of the mount helper over a kernel in memory, and what must hold for each of its requests.
#pragma once

#include <memory>
#include <string>

#include "mounter.pb.h"
#include "mounter/guard/guarded_mounter.h"
#include "tests/fakes/fake_mounter.h"
#include "tests/fuzz/messages/message_types.h"

namespace mooring::fuzz {

// Messages of mounter.proto with descriptors: the generated classes are lite and have none. Besides "Requests", which
// has `repeated mooring.pb.Request requests`.
std::unique_ptr<google::protobuf::Message> NewHelperMessage(const std::string& type);

class HelperWorld {
 public:
  HelperWorld();

  // Answers the request as the helper does, and checks:
  //   a request without a valid form is refused; a valid one is encoded to the same request again
  //   a refused request, and one that only reads, changes nothing
  //   mounts appear and go below the mount roots only; foreign mounts, devices and files stay
  //   the answer is decoded by the plugin, and encoded to the same answer again
  pb::Answer Answer(const pb::Request& request);

 private:
  std::string State();
  std::string Foreign();  // the part of the state that no request may change

  testing::FakeMounter fake_;
  GuardedMounter guarded_;
};

}  // namespace mooring::fuzz

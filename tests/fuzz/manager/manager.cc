// Sequences of requests to the manager: manager_world.h says what must hold.
#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/manager/manager_world.h"
#include "tests/fuzz/messages/message_mutator.h"
#include "tests/fuzz/messages/message_types.h"

namespace {

std::unique_ptr<google::protobuf::Message> NewCalls() {
  static auto& types = *new mooring::fuzz::MessageTypes(MOORING_DESCRIPTORS "/manager_calls.desc");
  return types.New("Calls");
}

// clang-format off
const std::vector<std::string> kWords = {
    "Activate", "Capabilities", "Create", "Remove", "Mount", "Unmount", "Path", "Get", "List",
    "docker", "default", "*", "db", "web", "db[0]", "../x", "c1", "c2", "alloc-1", "alloc-2", "host-1", "node-1",
    "fake.csi", "other.csi", "vol-1", "vol-2", "snap-1", "/mnt/a", "/mnt/b", "/mnt", "/mnt/../etc",
    "size", "max-size", "1GiB", "64MiB", "plugin", "fs-type", "ext4", "mount-flags", "noatime",
    "password=hunter2-secret", "access", "single-node-writer", "single-node-multi-writer", "multi-node-reader-only",
    "propagation", "private", "rslave", "rshared", "ro", "true", "false", "from-snapshot", "from-volume", "uid", "1000",
    "mode", "0770", "param.a", "secret.a", "Secret_B", "hunter2-secret", "CreateVolume", "DeleteVolume",
    "ControllerPublishVolume", "ControllerUnpublishVolume", "NodeStageVolume", "NodeUnstageVolume",
    "NodePublishVolume", "NodeUnpublishVolume", "ValidateVolumeCapabilities", "ControllerExpandVolume",
    R"({"Name":"db","ID":"c1"})", R"({"Name":"db","Opts":{"size":"1GiB","secret.a":"hunter2-secret"}})",
    R"({"Name":"db","Opts":[]})", R"({"Name":7})", "[]", "{", "null", ""};
// clang-format on

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mooring::fuzz::MutateInput(data, size, most, seed, *NewCalls(), kWords);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data1, std::size_t size1,
                                                 const std::uint8_t* data2, std::size_t size2, std::uint8_t* out,
                                                 std::size_t most, unsigned seed) {
  return mooring::fuzz::CrossInputs(data1, size1, data2, size2, out, most, seed, *NewCalls());
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = NewCalls();
  if (!mooring::fuzz::ParseInput(data, size, *input)) return -1;
  mooring::fuzz::ManagerWorld world;
  mooring::fuzz::ForEachCall(
      *input, [&](google::protobuf::Message& request, const std::string& failing) { world.Send(request, failing); });
  world.TakeDown();
  return 0;
}

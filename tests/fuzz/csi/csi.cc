// Sequences of CSI calls: csi_world.h says what must hold.
#include "tests/fuzz/csi/csi_world.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/messages/message_mutator.h"
#include "tests/fuzz/messages/message_types.h"

namespace {

std::unique_ptr<google::protobuf::Message> NewCalls() {
  static auto& types = *new mooring::fuzz::MessageTypes(MOORING_DESCRIPTORS "/csi_calls.desc");
  return types.New("Calls");
}

const std::vector<std::string> kWords = {"@volume0",
                                         "@volume1",
                                         "@volume2",
                                         "@snapshot0",
                                         "@snapshot1",
                                         "@group0",
                                         "csi-1",
                                         "csi-2",
                                         "pvc-1",
                                         "pvc-2",
                                         "vol-00000000000000000000000000000000",
                                         "n1",
                                         "n2",
                                         "topology.mooring.csi/node",
                                         "fsType",
                                         "ext4",
                                         "xfs",
                                         "btrfs",
                                         "pool",
                                         "default",
                                         "other",
                                         "propagation",
                                         "private",
                                         "rslave",
                                         "rshared",
                                         "slave",
                                         "shared",
                                         "read_only",
                                         "readOnly",
                                         "true",
                                         "false",
                                         "size",
                                         "64Mi",
                                         "readAhead",
                                         "readAheadKiB",
                                         "allowVolumeModeConversion",
                                         "uid",
                                         "gid",
                                         "mode",
                                         "0770",
                                         "1000",
                                         "csi.storage.k8s.io/ephemeral",
                                         "csi.storage.k8s.io/pvc/name",
                                         "/csi/staging/a",
                                         "/csi/staging/b",
                                         "/csi/pods/p/t",
                                         "/csi/pods/p/u",
                                         "/csi/staging",
                                         "/csi/foreign",
                                         "/csi/missing/t",
                                         "/etc/t",
                                         "/csi/../etc",
                                         "ro",
                                         "rw",
                                         "noatime",
                                         "nosuid",
                                         "noexec",
                                         "discard",
                                         "nodiscard",
                                         "commit=30",
                                         "password=hunter2",
                                         "hunter2-secret",
                                         "Mount",
                                         "Bind",
                                         "BindIf",
                                         "Find",
                                         "AttachLoop",
                                         "Format",
                                         "Probe",
                                         "TuneLoop",
                                         "after-1",
                                         "snapshots-after-1",
                                         ""};

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
  mooring::fuzz::CsiWorld world;
  mooring::fuzz::ForEachCall(
      *input, [&](google::protobuf::Message& request, const std::string& failing) { world.Send(request, failing); });
  return 0;
}

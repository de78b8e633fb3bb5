// Sequences of requests to the mount helper, after decoding: helper_world.h says what must hold.
#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/helper/helper_world.h"
#include "tests/fuzz/messages/message_mutator.h"

namespace {

using mooring::fuzz::NewHelperMessage;

const std::vector<std::string> kWords = {"/state/volumes/a.img",
                                         "/state/volumes/b.img",
                                         "/state/volumes/empty.img",
                                         "/state/volumes/new.img",
                                         "/state/directories/vol-d",
                                         "/other/disk.img",
                                         "/other",
                                         "/etc/x",
                                         "/etc/shadow",
                                         "/csi/secret",
                                         "/csi/secret/s",
                                         "/csi/socket",
                                         "/csi/staging",
                                         "/csi/staging/a",
                                         "/csi/staging/a/b",
                                         "/csi/pods/p",
                                         "/csi/pods/p/t",
                                         "/csi",
                                         "/",
                                         "/csi/../etc/x",
                                         "//csi//staging/",
                                         "/dev/loop0",
                                         "/dev/loop1",
                                         "/dev/loop65536",
                                         "/dev",
                                         "mooring",
                                         "mooring:a",
                                         "backup",
                                         "ext4",
                                         "xfs",
                                         "btrfs",
                                         "tmpfs",
                                         "size",
                                         "nr_inodes",
                                         "1048576",
                                         "discard",
                                         "commit",
                                         "30",
                                         "..",
                                         ""};

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  static const auto& prototype = *NewHelperMessage("Requests").release();
  return mooring::fuzz::MutateInput(data, size, most, seed, prototype, kWords);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data1, std::size_t size1,
                                                 const std::uint8_t* data2, std::size_t size2, std::uint8_t* out,
                                                 std::size_t most, unsigned seed) {
  static const auto& prototype = *NewHelperMessage("Requests").release();
  return mooring::fuzz::CrossInputs(data1, size1, data2, size2, out, most, seed, prototype);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = NewHelperMessage("Requests");
  if (!mooring::fuzz::ParseInput(data, size, *input)) return -1;
  const auto& reflection = *input->GetReflection();
  const auto* requests = input->GetDescriptor()->FindFieldByName("requests");
  mooring::fuzz::HelperWorld world;
  for (int i = 0; i < std::min(reflection.FieldSize(*input, requests), 12); ++i) {
    mooring::pb::Request request;
    request.ParseFromString(reflection.GetRepeatedMessage(*input, requests, i).SerializeAsString());
    request.set_patience_ms(0);  // no result depends on the time
    world.Answer(request);
  }
  return 0;
}

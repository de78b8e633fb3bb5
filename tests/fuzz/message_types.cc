#include "tests/fuzz/message_types.h"

#include <google/protobuf/descriptor.pb.h>

#include <fstream>

#include "tests/fuzz/fuzz.h"

namespace mooring::fuzz {

MessageTypes::MessageTypes(const std::string& file) {
  factory_.SetDelegateToGeneratedFactory(true);
  google::protobuf::FileDescriptorSet set;
  std::ifstream stream(file, std::ios::binary);
  Require(set.ParseFromIstream(&stream), "the build made the descriptors", file);
  for (const google::protobuf::FileDescriptorProto& described : set.file()) {
    if (google::protobuf::DescriptorPool::generated_pool()->FindFileByName(described.name()) != nullptr) continue;
    Require(pool_.BuildFile(described) != nullptr, "the descriptors are valid", described.name());
  }
}

std::unique_ptr<google::protobuf::Message> MessageTypes::New(const std::string& type) {
  const google::protobuf::Descriptor* descriptor = pool_.FindMessageTypeByName(type);
  Require(descriptor != nullptr, "the type is known", type);
  return std::unique_ptr<google::protobuf::Message>(factory_.GetPrototype(descriptor)->New());
}

}  // namespace mooring::fuzz

#include "tests/fuzz/messages/message_types.h"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <fstream>
#include <vector>

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

void ForEachCall(google::protobuf::Message& input,
                 const std::function<void(google::protobuf::Message& request, const std::string& failing)>& send) {
  using google::protobuf::FieldDescriptor;
  constexpr int kMost = 10;
  const auto& reflection = *input.GetReflection();
  const FieldDescriptor* const calls = input.GetDescriptor()->FindFieldByName("calls");
  for (int i = 0; i < std::min(reflection.FieldSize(input, calls), kMost); ++i) {
    google::protobuf::Message& call = *reflection.MutableRepeatedMessage(&input, calls, i);
    std::vector<const FieldDescriptor*> set;
    call.GetReflection()->ListFields(call, &set);
    const std::string failing = call.GetReflection()->GetString(call, call.GetDescriptor()->FindFieldByName("failing"));
    for (const FieldDescriptor* const field : set) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      send(*call.GetReflection()->MutableMessage(&call, field), failing);
    }
  }
}

}  // namespace mooring::fuzz

// The types of inputs, from descriptor sets that CMakeLists.txt makes of .proto files.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>

#include <functional>
#include <memory>
#include <string>

namespace mooring::fuzz {

class MessageTypes {
 public:
  // `file`: the descriptor set. Types that this program has as generated classes are these classes.
  explicit MessageTypes(const std::string& file);

  std::unique_ptr<google::protobuf::Message> New(const std::string& type);

 private:
  google::protobuf::DescriptorPool pool_{google::protobuf::DescriptorPool::generated_pool()};
  google::protobuf::DynamicMessageFactory factory_;
};

// For inputs that are sequences. `input` has a repeated field `calls`; a call is one of several requests, and a text
// `failing`. Takes the first ten calls.
void ForEachCall(google::protobuf::Message& input,
                 const std::function<void(google::protobuf::Message& request, const std::string& failing)>& send);

}  // namespace mooring::fuzz

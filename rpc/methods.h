// The names of the calls of an interface, for metrics and logs: "NodeStageVolume".
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

namespace mooring {

std::vector<std::string> MethodsOf(const google::protobuf::ServiceDescriptor& service);
std::vector<std::string> MethodsOf(const google::protobuf::FileDescriptor& file);  // of all its services

}  // namespace mooring

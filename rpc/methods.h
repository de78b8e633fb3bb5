// The names of the calls of an interface, for metrics and logs: "NodeStageVolume".
#ifndef MOORING_RPC_METHODS_H_
#define MOORING_RPC_METHODS_H_

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

namespace mooring {

std::vector<std::string> MethodsOf(const google::protobuf::ServiceDescriptor& service);
std::vector<std::string> MethodsOf(const google::protobuf::FileDescriptor& file);  // of all its services

}  // namespace mooring

#endif  // MOORING_RPC_METHODS_H_

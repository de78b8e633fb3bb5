#include "rpc/methods.h"

namespace mooring {

std::vector<std::string> MethodsOf(const google::protobuf::ServiceDescriptor& service) {
  std::vector<std::string> methods;
  for (int i = 0; i < service.method_count(); ++i) methods.push_back(service.method(i)->name());
  return methods;
}

std::vector<std::string> MethodsOf(const google::protobuf::FileDescriptor& file) {
  std::vector<std::string> methods;
  for (int i = 0; i < file.service_count(); ++i) {
    const std::vector<std::string> more = MethodsOf(*file.service(i));
    methods.insert(methods.end(), more.begin(), more.end());
  }
  return methods;
}

}  // namespace mooring

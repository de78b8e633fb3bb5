#include "manager/requests/csi_messages.h"

#include <google/protobuf/descriptor.h>

#include <cstddef>

#include "base/status.h"
#include "base/text/quote.h"
#include "csi.pb.h"

namespace mooring::manager {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // etcd takes 1.5 MB in a transaction
constexpr std::string_view kController = "/csi.v1.Controller/";

std::unique_ptr<google::protobuf::Message> New(const google::protobuf::Descriptor& type) {
  return std::unique_ptr<google::protobuf::Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
}

}  // namespace

std::string_view CallName(std::string_view method) { return method.substr(method.rfind('/') + 1); }

absl::StatusOr<CsiMessages> MessagesOf(const std::string& method) {
  const auto* const service = csi::v1::CreateVolumeRequest::descriptor()->file()->FindServiceByName("Controller");
  const auto* const found =
      method.starts_with(kController) ? service->FindMethodByName(method.substr(kController.size())) : nullptr;
  if (found == nullptr) return Unimplemented("{} is not a call of a controller that this host knows", Quote(method));
  return CsiMessages{New(*found->input_type()), New(*found->output_type())};
}

absl::Status CheckSize(std::string_view kind, std::string_view call, const google::protobuf::Message& message) {
  const std::size_t size = message.ByteSizeLong();
  if (size <= kMostBytes) return absl::OkStatus();
  return FailedPrecondition("the {} of {} has {} bytes, more than the {} that hosts can send to each other", kind, call,
                            size, kMostBytes);
}

}  // namespace mooring::manager

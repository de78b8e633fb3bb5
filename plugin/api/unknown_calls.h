// Answers calls of services that are not served. gRPC alone refuses them without a message.
#pragma once

#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "base/text/quote.h"

namespace mooring {

class UnknownCalls final : public grpc::CallbackGenericService {
 public:
  explicit UnknownCalls(grpc::StatusCode code = grpc::StatusCode::UNIMPLEMENTED,
                        std::string why = "is not served by this plugin")
      : code_(code), why_(std::move(why)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new Refusal(grpc::Status(code_, fmt::format("{} {}", Quote(context->method()), why_)));
  }

 private:
  struct Refusal final : grpc::ServerGenericBidiReactor {
    explicit Refusal(const grpc::Status& status) { Finish(status); }
    void OnDone() override { delete this; }
  };

  const grpc::StatusCode code_;
  const std::string why_;
};

}  // namespace mooring

#include "base/status.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/text/quote.h"

namespace mooring {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    case EFBIG:
      return absl::StatusCode::kOutOfRange;
    case EBUSY:
    case ELOOP:
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case EXDEV:
      return absl::StatusCode::kFailedPrecondition;
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status Make(absl::StatusCode code, const std::string& message) {
  return absl::Status(code, absl::string_view(message.data(), message.size()));
}

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view operation, std::string_view path) {
  return Make(CodeOf(error), fmt::format("{} {}: {}", operation, Quote(path), std::generic_category().message(error)));
}

absl::Status ErrnoStatus(int error, std::string_view operation) {
  return Make(CodeOf(error), fmt::format("{}: {}", operation, std::generic_category().message(error)));
}

bool MeansBroken(int error) {
  return error == EIO || error == ESTALE || error == ENOTCONN || error == EHOSTDOWN || error == ESHUTDOWN;
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return Make(status.code(), fmt::format("{}: {}", context, Message(status)));
}

absl::Status WithCode(absl::StatusCode code, const absl::Status& status) { return Make(code, Message(status)); }

absl::Status Unexpected(const absl::Status& status) {
  const bool misleading = absl::IsNotFound(status) || absl::IsUnimplemented(status) || absl::IsInvalidArgument(status);
  return misleading ? WithCode(absl::StatusCode::kInternal, status) : status;
}

absl::Status InvalidArgument(const std::string& message) { return Make(absl::StatusCode::kInvalidArgument, message); }
absl::Status NotFound(const std::string& message) { return Make(absl::StatusCode::kNotFound, message); }
absl::Status AlreadyExists(const std::string& message) { return Make(absl::StatusCode::kAlreadyExists, message); }
absl::Status FailedPrecondition(const std::string& message) {
  return Make(absl::StatusCode::kFailedPrecondition, message);
}
absl::Status OutOfRange(const std::string& message) { return Make(absl::StatusCode::kOutOfRange, message); }
absl::Status ResourceExhausted(const std::string& message) {
  return Make(absl::StatusCode::kResourceExhausted, message);
}
absl::Status Aborted(const std::string& message) { return Make(absl::StatusCode::kAborted, message); }
absl::Status Unavailable(const std::string& message) { return Make(absl::StatusCode::kUnavailable, message); }
absl::Status Unimplemented(const std::string& message) { return Make(absl::StatusCode::kUnimplemented, message); }
absl::Status Internal(const std::string& message) { return Make(absl::StatusCode::kInternal, message); }

std::string Message(const absl::Status& status) {
  const absl::string_view message = status.message();
  return std::string(message.data(), message.size());
}

}  // namespace mooring

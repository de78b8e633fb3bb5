#include "base/status.h"

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
    case ENOMEM:
    case EAGAIN:  // of fork(2) and pthread_create(3): the limit of processes is reached
    case EMLINK:
    case ENOLCK:
    case ENOBUFS:
      return absl::StatusCode::kResourceExhausted;
    case EFBIG:
      return absl::StatusCode::kOutOfRange;
    case EBUSY:
    case ELOOP:
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case EXDEV:
    case EROFS:
    case ETXTBSY:
    case EPERM:  // a capability, a mode, an immutable file or a security module: somebody has to change it first
    case EACCES:
      return absl::StatusCode::kFailedPrecondition;
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return absl::StatusCode::kUnimplemented;
    case ETIMEDOUT:  // a file server is silent
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view operation, std::string_view path) {
  return ErrorBuilder(CodeOf(error))("{} {}: {}", operation, Quote(path), std::generic_category().message(error));
}

absl::Status ErrnoStatus(int error, std::string_view operation) {
  return ErrorBuilder(CodeOf(error))("{}: {}", operation, std::generic_category().message(error));
}

bool MeansBroken(int error) {
  return error == EIO || error == ESTALE || error == ENOTCONN || error == EHOSTDOWN || error == ESHUTDOWN;
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return ErrorBuilder(status.code())("{}: {}", context, Message(status));
}

absl::Status WithCode(absl::StatusCode code, const absl::Status& status) { return ErrorBuilder(code)(Message(status)); }

absl::Status Unexpected(const absl::Status& status) {
  const bool misleading = absl::IsNotFound(status) || absl::IsUnimplemented(status) || absl::IsInvalidArgument(status);
  return misleading ? WithCode(absl::StatusCode::kInternal, status) : status;
}

// absl::string_view is another type than std::string_view on Debian 12.
absl::Status ErrorBuilder::operator()(const std::string& message) const {
  return absl::Status(code_, absl::string_view(message.data(), message.size()));
}

std::string Message(const absl::Status& status) {
  const absl::string_view message = status.message();
  return std::string(message.data(), message.size());
}

}  // namespace mooring

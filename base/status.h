// Errors: absl::Status everywhere. A message says what was tried, on which path, what the kernel said, what to do.
//
// The code is the CSI (gRPC) code that the caller is to see; absl's codes and gRPC's have the same numbers.
#ifndef MOORING_BASE_STATUS_H_
#define MOORING_BASE_STATUS_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// "<operation> '<path>': <errno in words>". The code follows the errno: ENOENT is NOT_FOUND, ENOSPC and EDQUOT are
// RESOURCE_EXHAUSTED, EBUSY is FAILED_PRECONDITION, ENOSYS is UNIMPLEMENTED; what nobody could expect is INTERNAL.
absl::Status ErrnoStatus(int error, std::string_view operation, std::string_view path);
absl::Status ErrnoStatus(int error, std::string_view operation);

// Whether an errno is what a filesystem says that was shut down, or whose server is dead or has forgotten it.
bool MeansBroken(int error);

// The same error with "<context>: " in front of its message.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// The same message under another code.
absl::Status WithCode(absl::StatusCode code, const absl::Status& status);

// Of what lies behind a volume that is known and a request that was understood (a file, a device, a tool): what was not
// found or cannot be done is INTERNAL to the caller, to whom NOT_FOUND would mean the volume and UNIMPLEMENTED the
// call.
absl::Status Unexpected(const absl::Status& status);

// Builders that take std::string (absl's take absl::string_view, a type of its own on Debian 12).
absl::Status InvalidArgument(const std::string& message);
absl::Status NotFound(const std::string& message);
absl::Status AlreadyExists(const std::string& message);
absl::Status FailedPrecondition(const std::string& message);
absl::Status OutOfRange(const std::string& message);
absl::Status ResourceExhausted(const std::string& message);
absl::Status Aborted(const std::string& message);
absl::Status Unavailable(const std::string& message);
absl::Status Unimplemented(const std::string& message);
absl::Status Internal(const std::string& message);

std::string Message(const absl::Status& status);

}  // namespace mooring

#define MOORING_STATUS_CONCAT_INNER(a, b) a##b
#define MOORING_STATUS_CONCAT(a, b) MOORING_STATUS_CONCAT_INNER(a, b)

#define MOORING_RETURN_IF_ERROR(expression)                                 \
  do {                                                                      \
    if (absl::Status mooring_status = (expression); !mooring_status.ok()) { \
      return mooring_status;                                                \
    }                                                                       \
  } while (false)

#define MOORING_ASSIGN_OR_RETURN(declaration, expression) \
  MOORING_ASSIGN_OR_RETURN_NAMED(MOORING_STATUS_CONCAT(mooring_result_, __LINE__), declaration, expression)

#define MOORING_ASSIGN_OR_RETURN_NAMED(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) return std::move(result).status();                  \
  declaration = *std::move(result)

#endif  // MOORING_BASE_STATUS_H_

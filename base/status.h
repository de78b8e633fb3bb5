// Errors. A message says what failed, on which object, what the kernel said, and what to do.
//
// The code is the CSI (gRPC) code for the caller. The codes of absl and gRPC have the same numbers.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mooring {

// "<operation> '<path>': <text of the errno>". The errno decides the code: ENOENT is NOT_FOUND, ENOSPC and EDQUOT are
// RESOURCE_EXHAUSTED, EBUSY and EPERM are FAILED_PRECONDITION, ENOSYS is UNIMPLEMENTED. Others are INTERNAL.
absl::Status ErrnoStatus(int error, std::string_view operation, std::string_view path);
absl::Status ErrnoStatus(int error, std::string_view operation);

// Whether the errno means that the filesystem was shut down, or that its server is dead or has forgotten it.
bool MeansBroken(int error);

// The same error with "<context>: " in front of its message.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// The same message under another code.
absl::Status WithCode(absl::StatusCode code, const absl::Status& status);

// Turns NOT_FOUND, UNIMPLEMENTED and INVALID_ARGUMENT into INTERNAL. Use it for errors about a file, a device or a
// program behind a known volume. The caller would take NOT_FOUND for the volume and UNIMPLEMENTED for the call.
absl::Status Unexpected(const absl::Status& status);

// Builds errors of one code: NotFound("volume {} does not exist", Quote(id)). A single string is the message itself.
class ErrorBuilder {
 public:
  constexpr explicit ErrorBuilder(absl::StatusCode code) : code_(code) {}
  absl::Status operator()(const std::string& message) const;
  template <typename First, typename... Others>
  absl::Status operator()(fmt::format_string<First, Others...> text, First&& first, Others&&... others) const {
    return (*this)(fmt::format(text, std::forward<First>(first), std::forward<Others>(others)...));
  }

 private:
  absl::StatusCode code_;
};
inline constexpr ErrorBuilder InvalidArgument(absl::StatusCode::kInvalidArgument);
inline constexpr ErrorBuilder NotFound(absl::StatusCode::kNotFound);
inline constexpr ErrorBuilder AlreadyExists(absl::StatusCode::kAlreadyExists);
inline constexpr ErrorBuilder FailedPrecondition(absl::StatusCode::kFailedPrecondition);
inline constexpr ErrorBuilder OutOfRange(absl::StatusCode::kOutOfRange);
inline constexpr ErrorBuilder ResourceExhausted(absl::StatusCode::kResourceExhausted);
inline constexpr ErrorBuilder Aborted(absl::StatusCode::kAborted);
inline constexpr ErrorBuilder Unavailable(absl::StatusCode::kUnavailable);
inline constexpr ErrorBuilder Unimplemented(absl::StatusCode::kUnimplemented);
inline constexpr ErrorBuilder Internal(absl::StatusCode::kInternal);

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

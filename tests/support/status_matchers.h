// Matchers for absl::Status and StatusOr.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"

namespace mooring::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// The code, and a piece of the message.
MATCHER_P2(FailsWith, code, piece, "") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code && ::mooring::Message(StatusOf(arg)).find(piece) != std::string::npos;
}

}  // namespace mooring::testing

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::mooring::testing::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::mooring::testing::IsOk())

#include "base/status.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/exception.h"
#include "base/file/unique_fd.h"
#include "base/process_end.h"
#include "tests/unit/unit_test.h"

namespace mooring::testing {
namespace {

TEST(StatusTest, ErrnoStatusNamesOperationAndPath) {
  EXPECT_THAT(ErrnoStatus(ENOENT, "open", "/a b"), FailsWith(StatusCode::kNotFound, "open '/a b': No such file"));
  EXPECT_THAT(ErrnoStatus(EIO, "listmount"), FailsWith(StatusCode::kInternal, "listmount: Input/output error"));
  EXPECT_THAT(ErrnoStatus(EIO, "open", "/a\nb"), FailsWith(StatusCode::kInternal, "/a\\x0ab"));
}

TEST(StatusTest, AnExceptionForALackOfMemoryOrThreadsIsNoInternalError) {
  EXPECT_THAT(ExceptionStatus(std::bad_alloc()), FailsWith(StatusCode::kResourceExhausted, "memory is short"));
  EXPECT_THAT(ExceptionStatus(std::system_error(EAGAIN, std::generic_category())),
              FailsWith(StatusCode::kResourceExhausted, "limit of processes"));
  EXPECT_THAT(ExceptionStatus(std::system_error(EMFILE, std::generic_category())),
              FailsWith(StatusCode::kResourceExhausted, "open files"));
  EXPECT_THAT(ExceptionStatus(std::runtime_error("odd")), FailsWith(StatusCode::kInternal, "odd"));
}

// A thread that hangs must not keep the process.
TEST(ProcessEndTest, TheProcessEndsAtTheLimitWithItsStatus) {
  const pid_t child = ::fork();
  if (child == 0) {
    EndProcessAfter(std::chrono::seconds(60), 4, "not this one");
    EndProcessAfter(std::chrono::seconds(1), 3, "");
    for (;;) ::pause();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(StatusTest, TheCodeFollowsTheErrno) {
  const std::vector<std::pair<int, StatusCode>> table = {
      {ENOENT, StatusCode::kNotFound},
      {ENOSPC, StatusCode::kResourceExhausted},
      {EDQUOT, StatusCode::kResourceExhausted},
      {EMFILE, StatusCode::kResourceExhausted},
      {ENFILE, StatusCode::kResourceExhausted},
      {ENOMEM, StatusCode::kResourceExhausted},
      {EAGAIN, StatusCode::kResourceExhausted},
      {EROFS, StatusCode::kFailedPrecondition},
      {EFBIG, StatusCode::kOutOfRange},
      {EBUSY, StatusCode::kFailedPrecondition},
      {ELOOP, StatusCode::kFailedPrecondition},
      {ENOTDIR, StatusCode::kFailedPrecondition},
      {EISDIR, StatusCode::kFailedPrecondition},
      {ENOTEMPTY, StatusCode::kFailedPrecondition},
      {EXDEV, StatusCode::kFailedPrecondition},
      {EINVAL, StatusCode::kInternal},
      {ENAMETOOLONG, StatusCode::kInvalidArgument},
      {ENOSYS, StatusCode::kUnimplemented},
      {EOPNOTSUPP, StatusCode::kUnimplemented},
      {EPERM, StatusCode::kFailedPrecondition},
      {EACCES, StatusCode::kFailedPrecondition},
      {EUCLEAN, StatusCode::kInternal},
      {0, StatusCode::kInternal},
  };
  for (const auto& [error, code] : table) EXPECT_EQ(ErrnoStatus(error, "try").code(), code) << error;
}

TEST(StatusTest, ErrnoStatusIsNeverOk) {
  for (int error = 0; error < 140; ++error) {
    EXPECT_FALSE(ErrnoStatus(error, "try").ok());
    EXPECT_NE(ErrnoStatus(error, "try").code(), StatusCode::kUnknown);
  }
}

TEST(StatusTest, AnnotateKeepsTheCodeAndLeavesOkAlone) {
  EXPECT_THAT(Annotate(NotFound("gone"), "look"), FailsWith(StatusCode::kNotFound, "look: gone"));
  EXPECT_OK(Annotate(absl::OkStatus(), "look"));
}

TEST(StatusTest, WithCodeKeepsTheMessage) {
  EXPECT_THAT(WithCode(StatusCode::kInternal, NotFound("gone")), FailsWith(StatusCode::kInternal, "gone"));
}

TEST(StatusTest, BuildersSetTheirCode) {
  EXPECT_EQ(InvalidArgument("m").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(NotFound("m").code(), StatusCode::kNotFound);
  EXPECT_EQ(AlreadyExists("m").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(FailedPrecondition("m").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(OutOfRange("m").code(), StatusCode::kOutOfRange);
  EXPECT_EQ(ResourceExhausted("m").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Aborted("m").code(), StatusCode::kAborted);
  EXPECT_EQ(Unavailable("m").code(), StatusCode::kUnavailable);
  EXPECT_EQ(Unimplemented("m").code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Internal("m").code(), StatusCode::kInternal);
  EXPECT_EQ(Message(Internal(std::string("a\0b", 3))), std::string("a\0b", 3));
}

absl::StatusOr<int> Doubled(const absl::StatusOr<int>& number) {
  MOORING_ASSIGN_OR_RETURN(const int value, number);
  MOORING_RETURN_IF_ERROR(value < 0 ? OutOfRange("negative") : absl::OkStatus());
  return 2 * value;
}

TEST(StatusTest, MacrosReturnErrorsAndAssignValues) {
  EXPECT_EQ(Doubled(4).value(), 8);
  EXPECT_THAT(Doubled(-1), FailsWith(StatusCode::kOutOfRange, "negative"));
  EXPECT_THAT(Doubled(Internal("broken")), FailsWith(StatusCode::kInternal, "broken"));
}

TEST(UniqueFdTest, ClosesTheFileOnce) {
  int fds[2] = {};
  ASSERT_EQ(::pipe(fds), 0);
  UniqueFd reader(fds[0]);
  {
    UniqueFd writer(fds[1]);
    UniqueFd moved = std::move(writer);
    EXPECT_TRUE(moved.ok());
    EXPECT_EQ(moved.get(), fds[1]);
  }
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0) << "end of file: the writer is closed";
  const int released = reader.release();
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(::close(released), 0);
}

}  // namespace
}  // namespace mooring::testing

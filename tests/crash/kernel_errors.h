// The errors that a system call may return, and what the caller of the RPC is told then.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/crash/step.h"

namespace mooring::testing {

// The errnos of the call's manual page that the kernel can give for such an object. The first ones are the likeliest.
// Errors that only a wrong argument brings about, such as EBADF, are left out.
std::vector<int> ErrorsOf(const Step& step);

std::string NameOfError(int error);  // "ENOSPC"

// The RPC failed because this step did. Its error must say where the kernel said what. Its code may not blame the
// request, or say that the volume is unknown. It may be INTERNAL only if the host is broken, as after EIO.
void ExpectClearError(const Step& step, int error, const absl::Status& status);

// The RPC succeeded although this step failed. If the step wrote or synced a file, the program has to try that again,
// as the steps `after` say. Otherwise data that is acknowledged may be lost.
void ExpectWrittenAgain(const Step& step, const std::vector<Step>& after);

}  // namespace mooring::testing

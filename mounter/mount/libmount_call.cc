#include "mounter/mount/libmount_call.h"

#include <libmount/libmount.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace mooring {
namespace {

using Context = std::unique_ptr<libmnt_context, void (*)(libmnt_context*)>;

// mount(8) would do more than the call says: look into tables, run a helper, mount read-only after a refusal.
bool Prepare(libmnt_context* context, const LibmountCall& call, bool may_run) {
  return mnt_context_disable_canonicalize(context, 1) == 0 &&
         mnt_context_disable_helpers(context, may_run ? 0 : 1) == 0 && mnt_context_disable_mtab(context, 1) == 0 &&
         mnt_context_disable_swapmatch(context, 1) == 0 && mnt_context_enable_rwonly_mount(context, 1) == 0 &&
         mnt_context_set_optsmode(context, MNT_OMODE_NOTAB) == 0 &&
         (call.source.empty() || mnt_context_set_source(context, call.source.c_str()) == 0) &&
         (call.fs_type.empty() || mnt_context_set_fstype(context, call.fs_type.c_str()) == 0) &&
         mnt_context_set_target(context, call.target.c_str()) == 0 &&
         mnt_context_append_options(context, call.words.c_str()) == 0;
}

// `result` is a negative or positive errno, or a code of libmount, which begin at 5000. libmount 2.38.1 does not tell
// the errno of a propagation: it is `last`.
int ErrorOf(libmnt_context* context, int result, int last) {
  if (const int call = mnt_context_get_syscall_errno(context); call > 0) return call;
  constexpr int kFirstOfLibmount = 5000;
  const int code = std::abs(result);
  if (code > 1 && code < kFirstOfLibmount) return code;
  return code == MNT_ERR_APPLYFLAGS && last != 0 ? last : EINVAL;
}

}  // namespace

int RunLibmount(const LibmountCall& call) {
  const Context context(mnt_new_context(), mnt_free_context);
  if (context == nullptr || !Prepare(context.get(), call, false)) return ENOMEM;
  errno = 0;
  const int result = mnt_context_mount(context.get());
  const int last = errno;
  if (result == 0 && mnt_context_get_status(context.get()) == 1) return 0;
  return ErrorOf(context.get(), result, last);
}

// The result of the call is 0 even if the program has failed.
int RunMountProgram(const LibmountCall& call) {
  const Context context(mnt_new_context(), mnt_free_context);
  if (context == nullptr || !Prepare(context.get(), call, true) || mnt_context_mount(context.get()) != 0 ||
      mnt_context_helper_executed(context.get()) != 1) {
    return -1;
  }
  return mnt_context_get_helper_status(context.get());
}

void AddWords(std::string& words, std::string_view more) {
  if (!words.empty() && !more.empty()) words += ',';
  words += more;
}

std::string PropagationWord(Propagation propagation, bool recursive) {
  const std::string prefix = recursive ? "r" : "";
  switch (propagation) {
    case Propagation::kInherit:
      return "";
    case Propagation::kPrivate:
      return prefix + "private";
    case Propagation::kSlave:
      return prefix + "slave";
    case Propagation::kShared:
      return prefix + "shared";
  }
  return "";
}

std::string OptionWords(const std::vector<FilesystemOption>& options) {
  std::string words;
  for (const FilesystemOption& option : options) {
    AddWords(words, option.key);
    if (!option.value) continue;
    const bool quote = option.value->find(',') != std::string::npos;
    words += quote ? "=\"" + *option.value + "\"" : "=" + *option.value;
  }
  return words;
}

}  // namespace mooring

// The mounter of the mount helper: acts in this process, and does only what the policy allows.
#pragma once

#include "mounter/guard/guarded_mounter.h"
#include "mounter/guard/source_guard.h"
#include "mounter/guard/target_guard.h"
#include "mounter/kernel/kernel_mounter.h"

namespace mooring {

// A KernelMounter without guards accepts every source and target, so the helper makes none by itself.
struct GuardedStack {
  explicit GuardedStack(const HelperPolicy& policy)
      : sources(policy.sources, policy.label_prefix, policy.volume_directories, policy.device_links),
        targets(ForbiddenTrees(policy), policy.forbidden_places, policy.roots),
        kernel(policy.roots, sources, targets),
        mounter(policy, kernel) {}
  GuardedStack(const GuardedStack&) = delete;
  GuardedStack& operator=(const GuardedStack&) = delete;

  const SourceGuard sources;
  const TargetGuard targets;
  KernelMounter kernel;
  GuardedMounter mounter;
};

}  // namespace mooring

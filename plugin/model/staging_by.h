#ifndef MOORING_PLUGIN_MODEL_STAGING_BY_H_
#define MOORING_PLUGIN_MODEL_STAGING_BY_H_

namespace mooring {

// Who looks after what is staged.
enum class StagingBy {
  kOrchestrator,  // it makes the directories before Stage, and calls Unstage: as CSI has it
  kPlugin,        // Stage makes a directory that is missing, and a volume's stagings go with its last target
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_STAGING_BY_H_

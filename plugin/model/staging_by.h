#ifndef MOORING_PLUGIN_MODEL_STAGING_BY_H_
#define MOORING_PLUGIN_MODEL_STAGING_BY_H_

namespace mooring {

// The side that creates staging directories and unstages volumes.
enum class StagingBy {
  kOrchestrator,  // as CSI 1.12 says: it creates the directory before Stage, and calls Unstage
  kPlugin,        // Stage creates a missing directory, and the end of the last target unstages the volume
};

}  // namespace mooring

#endif  // MOORING_PLUGIN_MODEL_STAGING_BY_H_

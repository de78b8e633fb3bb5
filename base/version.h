#ifndef MOORING_BASE_VERSION_H_
#define MOORING_BASE_VERSION_H_

namespace mooring {

const char* Version();  // the release, "0.1.0"
const char* Commit();   // the commit of the build, or "unknown"

}  // namespace mooring

#endif  // MOORING_BASE_VERSION_H_

#pragma once

namespace mooring {

const char* Version();  // the release, "0.1.0"
const char* Commit();   // the commit of the build, or "unknown"

}  // namespace mooring

// The same calls to several drivers, in turns, so that the noise of the machine is the same for all.
#pragma once

#include <string>

#include "bench/driver.h"

namespace mooring::bench {

// Each function prints a table with medians, and the last two also goals. `directory` exists and is empty.

// The driver that serves `socket`. It sees `directory` at the same path.
void MeasureOther(const std::string& directory, const std::string& socket);

// Our plugin beside the reference driver, csi-driver-host-path or its older form.
void CompareWithReference(const std::string& directory, const std::string& plugin, const Command& reference);

// Our plugin natively and as on older kernels, with 0 and with `mounts` other mounts. `without` is the program
// tests/support/programs/without.cc.
void CompareKernels(const std::string& directory, const std::string& plugin, const std::string& without, int mounts);

}  // namespace mooring::bench

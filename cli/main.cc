#include <cstdlib>
#include <iostream>

#include "cli/run.h"

int main(int argc, char** argv) {
  // gRPC's own log lines say again, and less plainly, what our errors say. Not overwritten where somebody wants them.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  return mooring::cli::Run(argc, argv, std::cout, std::cerr);
}

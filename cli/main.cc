#include <cstdlib>
#include <iostream>

#include "cli/run.h"

int main(int argc, char** argv) {
  // The log lines of gRPC repeat what the errors say. A value that the user has set stays.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  return mooring::cli::Run(argc, argv, std::cout, std::cerr);
}

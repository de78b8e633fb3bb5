#include <cstdlib>
#include <exception>
#include <iostream>

#include "base/host.h"
#include "cli/run.h"

int main(int argc, char** argv) {
  mooring::FillStandardFiles();
  // The log lines of gRPC repeat what the errors say. A value that the user has set stays.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  try {
    return mooring::cli::Run(argc, argv, std::cout, std::cerr);
  } catch (const std::exception& error) {
    std::cerr << "mooring: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}

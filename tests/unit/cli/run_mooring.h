// The program, called in process.
#ifndef MOORING_TESTS_UNIT_CLI_RUN_MOORING_H_
#define MOORING_TESTS_UNIT_CLI_RUN_MOORING_H_

#include <google/protobuf/struct.pb.h>

#include <string>
#include <vector>

namespace mooring::cli {

struct Result {
  int status = 0;
  std::string out;
  std::string err;
};

// `mooring <arguments>`
Result Mooring(const std::vector<std::string>& arguments);

// The same by another of its names: "/sbin/mount.csi".
Result RunAs(const char* name, const std::vector<std::string>& arguments);

// The output of a command with --json: one line.
google::protobuf::Struct ParseJsonLine(const std::string& json);

}  // namespace mooring::cli

#endif  // MOORING_TESTS_UNIT_CLI_RUN_MOORING_H_

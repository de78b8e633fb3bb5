// The program, called in process.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <string>

#include "cli/output/report.h"

namespace mooring::cli {

struct Result {
  int status = 0;
  std::string out;
  std::string err;
};

// Runs a command line, which is split into words as a shell does: "mooring csi create v --param 'a=b c'". The first
// word may be another name of the program: "/sbin/mount.csi".
Result RunLine(const std::string& line);

// The output of a command with --json: one line.
google::protobuf::Struct ParseJsonLine(const std::string& json);

}  // namespace mooring::cli

// The output streams of a command.
#ifndef MOORING_CLI_OUTPUT_STREAMS_H_
#define MOORING_CLI_OUTPUT_STREAMS_H_

#include <ostream>

namespace mooring::cli {

struct Streams {
  std::ostream& out;  // answers
  std::ostream& err;  // everything else
};

}  // namespace mooring::cli

#endif  // MOORING_CLI_OUTPUT_STREAMS_H_

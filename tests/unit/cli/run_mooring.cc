#include "tests/unit/cli/run_mooring.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "cli/manager/parse/value_text.h"
#include "cli/run.h"

namespace mooring::cli {

Result RunLine(const std::string& line) {
  const std::vector<std::string> words = manager_area::SplitWords(line).value();
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int status = Run(static_cast<int>(argv.size()), argv.data(), out, err);
  return {status, out.str(), err.str()};
}

google::protobuf::Struct ParseJsonLine(const std::string& json) {
  google::protobuf::Struct object;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &object).ok()) << json;
  EXPECT_EQ(json.find('\n'), json.size() - 1) << "one line: " << json;
  return object;
}

}  // namespace mooring::cli

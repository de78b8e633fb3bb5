// The includes and names with which nearly all tests of the manager begin.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace mooring {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TempDir;
using Code = absl::StatusCode;

// A deadline that no passing test reaches.
inline std::chrono::steady_clock::time_point Soon() { return std::chrono::steady_clock::now() + seconds(20); }

}  // namespace mooring

#include "plugin/backends/device/device_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "base/file/private_file.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"
namespace mooring {
namespace {

constexpr int kLines = 6;

}  // namespace

absl::StatusOr<DeviceRecord> ReadDeviceRecord(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  DeviceRecord record;
  constexpr auto kRest = std::numeric_limits<std::streamsize>::max();
  std::istringstream file(text);
  std::getline(file, record.link);
  std::getline(file, record.serial);
  file >> record.bytes;
  file.ignore(kRest, '\n');
  std::getline(file, record.node);
  file >> record.number;
  file.ignore(kRest, '\n');
  std::getline(file, record.boot_id);
  if (file && !record.link.empty()) return record;
  return FailedPrecondition("{} does not say which device the volume has: put it back", Quote(path));
}

absl::Status WriteDeviceRecord(const std::string& path, const DeviceRecord& record) {
  const std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", record.link, record.serial, record.bytes,
                                       record.node, record.number, record.boot_id);
  if (std::count(text.begin(), text.end(), '\n') != kLines) {
    return FailedPrecondition("the device {} has a name with a line break", Quote(record.link));
  }
  return WritePrivateFile(path, text, Outlives::kAPowerCut);
}

}  // namespace mooring

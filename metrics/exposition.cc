#include "metrics/exposition.h"

#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "metrics/samples.h"

namespace mooring::metrics {
namespace {

constexpr double kMicro = 1e-6;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * kMicro;
}

std::optional<double> CpuSeconds() {
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

struct Memory {
  double virtual_bytes = 0, resident_bytes = 0;
};

std::optional<Memory> MemoryOfThis() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  if (!(file >> all >> resident)) return std::nullopt;
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  return Memory{static_cast<double>(all) * page, static_cast<double>(resident) * page};
}

std::optional<double> OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return std::nullopt;
  return static_cast<double>(std::distance(begin(files), end(files)) - 1);  // without the descriptor that lists them
}

std::optional<double> MostOpenFiles() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

void Append(std::vector<prometheus::MetricFamily>& families, std::vector<prometheus::MetricFamily> more) {
  families.insert(families.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  std::vector<prometheus::MetricFamily> families;
  const auto put = [&families](Samples samples, std::optional<double> value) {
    if (value) samples.Add(*value);
    samples.MoveTo(families);
  };
  put(Samples::Gauge("process_start_time_seconds", "When the process was started, in seconds since 1970."),
      std::chrono::duration<double>(started_.time_since_epoch()).count());
  put(Samples::Counter("process_cpu_seconds_total", "Processor time that the process has taken."), CpuSeconds());
  const std::optional<Memory> memory = MemoryOfThis();
  put(Samples::Gauge("process_resident_memory_bytes", "Memory of the process that is in RAM."),
      memory ? std::optional(memory->resident_bytes) : std::nullopt);
  put(Samples::Gauge("process_virtual_memory_bytes", "Address space of the process."),
      memory ? std::optional(memory->virtual_bytes) : std::nullopt);
  put(Samples::Gauge("process_open_fds", "File descriptors that the process has open."), OpenFiles());
  put(Samples::Gauge("process_max_fds", "File descriptors that the process may have open."), MostOpenFiles());
  return families;
}

std::string Exposition::Text() const {
  std::vector<prometheus::MetricFamily> families = collect_();
  Append(families, registry_.Collect());
  Append(families, process_.Collect());
  return static_cast<const prometheus::Serializer&>(prometheus::TextSerializer()).Serialize(families);
}

}  // namespace mooring::metrics

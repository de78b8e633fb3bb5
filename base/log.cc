#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::log {
namespace {

struct Sink {
  std::shared_ptr<spdlog::logger> logger;
  Format format = Format::kText;
};

Sink& TheSink() {
  static Sink sink{std::make_shared<spdlog::logger>("mooring", std::make_shared<spdlog::sinks::stderr_sink_mt>())};
  return sink;
}

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::off;
}

std::optional<Level> ParseLevel(std::string_view name) {
  if (name == "debug") return Level::kDebug;
  if (name == "info") return Level::kInfo;
  if (name == "warning") return Level::kWarning;
  if (name == "error") return Level::kError;
  return std::nullopt;
}

constexpr std::size_t kMaxValue = 4096;

// A plain word is written as it is, every other value is quoted, so that a line splits back into its fields.
std::string TextValue(std::string_view value) {
  constexpr std::string_view kBare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:+";
  const bool bare = !value.empty() && value.find_first_not_of(kBare) == std::string_view::npos;
  return bare ? std::string(value.substr(0, kMaxValue)) : Quote(value, kMaxValue);
}

std::string Number(double number) { return fmt::format("{:.3f}", number); }

std::string TextValue(const Value& value) {
  const auto* const text = std::get_if<std::string>(&value);
  return text == nullptr ? Number(std::get<double>(value)) : TextValue(std::string_view(*text));
}

std::string JsonValue(const Value& value) {
  const auto* const text = std::get_if<std::string>(&value);
  return text == nullptr ? Number(std::get<double>(value)) : JsonQuote(std::string_view(*text).substr(0, kMaxValue));
}

// Messages are constants. A message that carries text from outside by mistake still stays on one line.
std::string OneLine(std::string_view message) {
  std::string line(message);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  std::replace_if(line.begin(), line.end(), is_control, ' ');
  return line;
}

std::string Line(Format format, std::string_view message, const Fields& fields) {
  const bool json = format == Format::kJson;
  std::string line = json ? JsonQuote(message) : OneLine(message);
  for (const auto& [key, value] : fields) {
    line +=
        json ? fmt::format(",{}:{}", JsonQuote(key), JsonValue(value)) : fmt::format(" {}={}", key, TextValue(value));
  }
  return line;
}

}  // namespace

absl::Status Setup(std::string_view level, std::string_view format) {
  const std::optional<Level> parsed = ParseLevel(level);
  if (!parsed) return InvalidArgument("log level {}: use debug, info, warning or error", Quote(level));
  if (format != "text" && format != "json") return InvalidArgument("log format {}: use text or json", Quote(format));
  Sink& sink = TheSink();
  sink.format = format == "json" ? Format::kJson : Format::kText;
  sink.logger->set_level(ToSpdlog(*parsed));
  sink.logger->flush_on(spdlog::level::debug);
  sink.logger->set_pattern(sink.format == Format::kJson
                               ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%v})"
                               : "%Y-%m-%dT%H:%M:%S.%e%z %-7l %v");
  return absl::OkStatus();
}

bool Enabled(Level level) { return TheSink().logger->should_log(ToSpdlog(level)); }

void Write(Level level, std::string_view message, const Fields& fields) {
  const Sink& sink = TheSink();
  if (!sink.logger->should_log(ToSpdlog(level))) return;
  sink.logger->log(ToSpdlog(level), "{}", Line(sink.format, message, fields));
}

void Once(Level level, const char* message, const Fields& fields) {
  static std::mutex mutex;
  static std::set<std::string> written;
  const std::lock_guard<std::mutex> lock(mutex);
  if (written.insert(message).second) Write(level, message, fields);
}

void WarningIfFailed(const absl::Status& outcome, std::string_view message, Fields fields) {
  if (outcome.ok()) return;
  fields.emplace_back("cause", Message(outcome));
  Warning(message, fields);
}

}  // namespace mooring::log

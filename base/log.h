// Logging: one logger, to stderr, as text for people or JSON lines for machines.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace mooring::log {

enum class Format { kText, kJson };
enum class Level { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning" or "error"; "text" or "json". INVALID_ARGUMENT names the choices.
absl::Status Setup(std::string_view level, std::string_view format);

bool Enabled(Level level);

// Text, which is escaped when it is written, or a number, which is written with three decimals and unquoted in JSON.
using Value = std::variant<std::string, double>;

// key=value pairs after the message (text), or members of the object (JSON).
using Fields = std::vector<std::pair<std::string_view, Value>>;
void Write(Level level, std::string_view message, const Fields& fields = {});

// Writes this message, a constant, only the first time. An event that others can cause at will cannot fill the disk.
void Once(Level level, const char* message, const Fields& fields = {});

inline void Debug(std::string_view message, const Fields& fields = {}) { Write(Level::kDebug, message, fields); }
inline void Info(std::string_view message, const Fields& fields = {}) { Write(Level::kInfo, message, fields); }
inline void Warning(std::string_view message, const Fields& fields = {}) { Write(Level::kWarning, message, fields); }
inline void Error(std::string_view message, const Fields& fields = {}) { Write(Level::kError, message, fields); }

// A warning about a step that failed, with its error as `cause`. Nothing is written if it succeeded.
void WarningIfFailed(const absl::Status& outcome, std::string_view message, Fields fields = {});

}  // namespace mooring::log

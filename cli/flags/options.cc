#include "cli/flags/options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/text/quote.h"

namespace mooring::cli {
namespace {

void CheckNotEmpty(const std::string& text, const char* name) {
  if (text.empty()) throw CLI::ValidationError(name, "the value is empty");
}

pid_t ParsePid(const std::string& text, const char* name) {
  pid_t pid = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, pid);
  if (error == std::errc() && stop == end && pid > 0) return pid;
  throw CLI::ValidationError(name, Quote(text) + " is not the number of a process");
}

}  // namespace

CLI::Option* AddText(CLI::App& app, const char* name, const char* value, const char* help, std::string& slot) {
  const auto take = [name, &slot](const std::string& text) {
    CheckNotEmpty(text, name);
    slot = text;
  };
  return app.add_option_function<std::string>(name, take, help)->type_name(value);
}

CLI::Option* AddTexts(CLI::App& app, const char* name, const char* value, const char* help,
                      std::vector<std::string>& slot) {
  const auto take = [name, &slot](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) CheckNotEmpty(text, name);
    slot = texts;
  };
  return app.add_option_function<std::vector<std::string>>(name, take, help)->type_name(value)->allow_extra_args(false);
}

CLI::Option* AddPid(CLI::App& app, const char* name, const char* help, pid_t& slot) {
  const auto take = [name, &slot](const std::string& text) { slot = ParsePid(text, name); };
  return app.add_option_function<std::string>(name, take, help)->type_name("PID");
}

}  // namespace mooring::cli

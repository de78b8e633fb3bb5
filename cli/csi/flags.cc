#include "cli/csi/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "absl/status/statusor.h"
#include "base/quote.h"
#include "base/status.h"
#include "cli/size.h"

namespace mooring::cli::csi_area {
namespace {

// CLI11 learns of a wrong value by exception; it puts nothing of its own before the message.
void ThrowIfError(const absl::Status& status, const Flag& flag) {
  if (!status.ok()) throw CLI::ValidationError(flag.name, Message(status));
}

absl::StatusOr<Duration> ParseSeconds(const std::string& text) {
  constexpr double kLongest = 24 * 60 * 60;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  if (error != std::errc() || stop != end || !(seconds > 0 && seconds <= kLongest)) {
    return InvalidArgument(Quote(text) + " is not a number of seconds above 0, at most 86400");
  }
  return Duration(static_cast<Duration::rep>(std::ceil(seconds * 1000)));
}

absl::StatusOr<std::int32_t> ParseCount(const std::string& text) {
  std::int32_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  if (error == std::errc() && stop == end && count > 0) return count;
  return InvalidArgument(Quote(text) + " is not a whole number above 0");
}

// An empty value is nearly always a script's variable that is not set. To send it would mean something else than what
// is written: no source of data, every node. Who means that leaves the flag out.
absl::Status CheckText(const std::string& text, const Flag& flag) {
  if (text.empty()) return InvalidArgument("the value is empty");
  if (flag.is_sent && !IsUtf8(text)) return InvalidArgument(Quote(text) + " is not UTF-8");
  return absl::OkStatus();
}

// One Bind a type of slot: it says how the flag's text becomes the member's value.
class Binder {
 public:
  Binder(CLI::App& app, const Flag& flag, Arguments& arguments) : app_(app), flag_(flag), arguments_(arguments) {}

  CLI::Option* operator()(bool Arguments::*slot) const {
    return app_.add_flag(flag_.name, arguments_.*slot, flag_.help);
  }
  CLI::Option* operator()(std::string Arguments::*slot) const {
    return Once(slot, [&flag = flag_](const std::string& text) -> absl::StatusOr<std::string> {
      MOORING_RETURN_IF_ERROR(CheckText(text, flag));
      return text;
    });
  }
  CLI::Option* operator()(std::vector<std::string> Arguments::*slot) const {
    return Each(slot, [&flag = flag_](const std::string& text, std::vector<std::string>& all) {
      const absl::Status status = CheckText(text, flag);
      if (status.ok()) all.push_back(text);
      return status;
    });
  }
  CLI::Option* operator()(std::optional<Bytes> Arguments::*slot) const { return Once(slot, ParseSize); }
  CLI::Option* operator()(std::int32_t Arguments::*slot) const { return Once(slot, ParseCount); }
  CLI::Option* operator()(Duration Arguments::*slot) const { return Once(slot, ParseSeconds); }
  CLI::Option* operator()(std::optional<Duration> Arguments::*slot) const { return Once(slot, ParseSeconds); }
  CLI::Option* operator()(KeyValues Arguments::*slot) const { return Each(slot, AddKeyValue); }
  CLI::Option* operator()(std::vector<KeyValues> Arguments::*slot) const {
    return Each(slot, [](const std::string& text, std::vector<KeyValues>& all) {
      return AddKeyValueList(text, all.emplace_back());
    });
  }
  CLI::Option* operator()(Secrets Arguments::*slot) const {
    return Each(slot, [](const std::string& text, Secrets& secrets) { return secrets.Add(text); });
  }

 private:
  template <typename T, typename Parse>
  CLI::Option* Once(T Arguments::*slot, Parse parse) const {
    return app_.add_option_function<std::string>(
        flag_.name,
        [parse, slot, &flag = flag_, &arguments = arguments_](const std::string& text) {
          const auto value = parse(text);
          ThrowIfError(value.status(), flag);
          arguments.*slot = *value;
        },
        flag_.help);
  }

  // One value a flag: "--access a NAME" must leave NAME alone, and "[x]" is a value, not a list.
  template <typename T, typename AddOne>
  CLI::Option* Each(T Arguments::*slot, AddOne add) const {
    const auto take = [add, slot, &flag = flag_, &arguments = arguments_](const std::vector<std::string>& texts) {
      for (const std::string& text : texts) ThrowIfError(add(text, arguments.*slot), flag);
    };
    return app_.add_option_function<std::vector<std::string>>(flag_.name, take, flag_.help)->allow_extra_args(false);
  }

  CLI::App& app_;
  const Flag& flag_;
  Arguments& arguments_;
};

}  // namespace

Flags AllOf(std::initializer_list<Flags> lists) {
  Flags all;
  for (const Flags& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void AddFlags(CLI::App& app, const Flags& flags, bool required, Arguments& arguments) {
  for (const Flag* flag : flags) {
    CLI::Option* option = std::visit(Binder(app, *flag, arguments), flag->slot);
    option->required(required);
    if (!std::holds_alternative<bool Arguments::*>(flag->slot)) option->type_name(flag->value);
    if (*flag->environment != '\0') option->envname(flag->environment);
  }
}

}  // namespace mooring::cli::csi_area

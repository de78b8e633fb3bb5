// Flags and positional arguments. A flag is one constant: its name, its help, and the member of the area's Arguments
// that it fills. A command lists the flags that it takes.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/text/size.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/secrets.h"

namespace mooring::cli {

// The member that a flag fills. Its type decides how the value is parsed. A flag with a vector, a map or secrets may be
// given several times.
template <typename Arguments>
using SlotOf = std::variant<std::string Arguments::*, std::vector<std::string> Arguments::*, bool Arguments::*,
                            std::optional<Bytes> Arguments::*, Offset Arguments::*, std::int32_t Arguments::*,
                            std::int64_t Arguments::*, std::optional<std::uint32_t> Arguments::*, Duration Arguments::*,
                            std::optional<Duration> Arguments::*, KeyValues Arguments::*,
                            std::vector<KeyValues> Arguments::*, Secrets Arguments::*>;

template <typename Arguments>
struct FlagOf {
  const char* name;   // "--size", or "ID" for a positional argument
  const char* value;  // the name of its value in the help; "" for a switch or a positional argument
  const char* help;   // a noun phrase: "Maximum size of the volume"
  SlotOf<Arguments> slot;
  const char* environment = "";  // the environment variable with the default value
  bool is_sent = true;           // the value is sent in a request, so it must be UTF-8
};

template <typename Arguments>
using FlagsOf = std::vector<const FlagOf<Arguments>*>;

// Adds a flag to a command. Each overload parses the text of the flag for one type of member.
template <typename Arguments>
class FlagBinder {
 public:
  FlagBinder(CLI::App& app, const FlagOf<Arguments>& flag, Arguments& arguments)
      : app_(app), flag_(flag), arguments_(arguments) {}

  CLI::Option* operator()(bool Arguments::*slot) const {
    return app_.add_flag(flag_.name, arguments_.*slot, flag_.help);
  }
  CLI::Option* operator()(std::string Arguments::*slot) const {
    return Once(slot, [&flag = flag_](const std::string& text) -> absl::StatusOr<std::string> {
      MOORING_RETURN_IF_ERROR(CheckText(text, flag.is_sent));
      return text;
    });
  }
  CLI::Option* operator()(std::vector<std::string> Arguments::*slot) const {
    return Each(slot, [&flag = flag_](const std::string& text, std::vector<std::string>& all) {
      const absl::Status status = CheckText(text, flag.is_sent);
      if (status.ok()) all.push_back(text);
      return status;
    });
  }
  CLI::Option* operator()(std::optional<Bytes> Arguments::*slot) const { return Once(slot, ParseSize); }
  CLI::Option* operator()(Offset Arguments::*slot) const { return Once(slot, ParseOffset); }
  CLI::Option* operator()(std::int32_t Arguments::*slot) const { return Once(slot, ParseCount); }
  CLI::Option* operator()(std::int64_t Arguments::*slot) const { return Once(slot, ParseRevision); }
  CLI::Option* operator()(std::optional<std::uint32_t> Arguments::*slot) const { return Once(slot, ParseIndex); }
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
  // CLI11 expects an exception for a wrong value, and prints the message as it is.
  static void ThrowIfError(const absl::Status& status, const FlagOf<Arguments>& flag) {
    if (!status.ok()) throw CLI::ValidationError(flag.name, Message(status));
  }

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

  // Each flag takes one value: in "--access a NAME", NAME is a positional argument, and "[x]" is a value, not a list.
  template <typename T, typename AddOne>
  CLI::Option* Each(T Arguments::*slot, AddOne add) const {
    const auto take = [add, slot, &flag = flag_, &arguments = arguments_](const std::vector<std::string>& texts) {
      for (const std::string& text : texts) ThrowIfError(add(text, arguments.*slot), flag);
    };
    CLI::Option* option = app_.add_option_function<std::vector<std::string>>(flag_.name, take, flag_.help);
    const bool is_positional = *flag_.name != '-';
    return is_positional ? option : option->allow_extra_args(false);
  }

  CLI::App& app_;
  const FlagOf<Arguments>& flag_;
  Arguments& arguments_;
};

template <typename Arguments>
FlagsOf<Arguments> AllOf(std::initializer_list<FlagsOf<Arguments>> lists) {
  FlagsOf<Arguments> all;
  for (const FlagsOf<Arguments>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Parsing stores the values in `arguments`, which must outlive the parse.
template <typename Arguments>
void AddFlags(CLI::App& app, const FlagsOf<Arguments>& flags, bool required, Arguments& arguments) {
  for (const FlagOf<Arguments>* flag : flags) {
    CLI::Option* option = std::visit(FlagBinder<Arguments>(app, *flag, arguments), flag->slot);
    option->required(required);
    if (!std::holds_alternative<bool Arguments::*>(flag->slot)) option->type_name(flag->value);
    if (*flag->environment != '\0') option->envname(flag->environment);
  }
}

}  // namespace mooring::cli

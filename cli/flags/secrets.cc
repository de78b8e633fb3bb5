#include "cli/flags/secrets.h"

#include <fmt/format.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/text/quote.h"
#include "cli/flags/flag_values.h"

namespace mooring::cli {
namespace {

constexpr std::size_t kShortestToRedact = 4;  // redacting every "1" would reveal the secret "1"
constexpr std::string_view kRedacted = "***";

std::string WithoutQuotes(const std::string& quoted) { return quoted.substr(1, quoted.size() - 2); }

// Escapes as C, Go's %q and most JSON writers do: \n, where JsonQuote writes \u000a.
std::string ShortEscapes(std::string_view value) {
  constexpr std::string_view kPlain = "\n\t\r\"\\";
  constexpr std::string_view kLetters = "ntr\"\\";
  std::string escaped;
  for (const char c : value) {
    const std::size_t at = kPlain.find(c);
    if (at != std::string_view::npos) escaped += '\\';
    escaped += at == std::string_view::npos ? c : kLetters[at];
  }
  return escaped;
}

// Adds `value`, and the forms that it has in quoted text.
void AddForms(const std::string& value, std::vector<std::string>& forms) {
  forms.push_back(value);
  for (std::string form :
       {WithoutQuotes(Quote(value, value.size())), WithoutQuotes(JsonQuote(value)), ShortEscapes(value)}) {
    if (form != value) forms.push_back(std::move(form));
  }
}

}  // namespace

absl::Status Secrets::Add(std::string_view text) { return AddKeyValue(text, pairs_); }

absl::Status Secrets::AddLines(std::string_view content) {
  for (int line_number = 1; !content.empty(); ++line_number) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    MOORING_RETURN_IF_ERROR(Annotate(Add(line), fmt::format("line {}", line_number)));
  }
  return absl::OkStatus();
}

absl::Status Secrets::AddJson(const std::string& content) {
  // The errors of the parser may repeat secrets, so they are dropped.
  google::protobuf::Struct object;
  if (!google::protobuf::util::JsonStringToMessage(content, &object).ok()) {
    return InvalidArgument("the file begins with '{' but is not a JSON object");
  }
  for (const auto& [key, value] : object.fields()) {
    if (value.kind_case() != google::protobuf::Value::kStringValue) {
      return InvalidArgument("the value of {} is not a string", Quote(key));
    }
    if (!pairs_.emplace(key, value.string_value()).second) {
      return InvalidArgument("the key {} is given twice", Quote(key));
    }
  }
  return absl::OkStatus();
}

absl::Status Secrets::AddFile(const std::string& path) {
  const std::string context = "the secrets file " + Quote(path);
  absl::StatusOr<std::string> content = ReadFile(path);
  if (!content.ok()) return Annotate(WithCode(absl::StatusCode::kInvalidArgument, content.status()), context);
  const std::size_t first = content->find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && (*content)[first] == '{';
  return Annotate(json ? AddJson(*content) : AddLines(*content), context);
}

void Secrets::CopyTo(google::protobuf::Map<std::string, std::string>& map) const {
  for (const auto& [key, value] : pairs_) map[key] = value;
}

std::string Secrets::Redact(std::string text) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : pairs_) {
    if (value.size() >= kShortestToRedact) AddForms(value, values);
  }
  // The longest first: a secret that contains another one is replaced as a whole.
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (const std::string_view value : values) {
    for (std::size_t at = text.find(value); at != std::string::npos; at = text.find(value, at + kRedacted.size())) {
      text.replace(at, value.size(), kRedacted);
    }
  }
  return text;
}

absl::Status Secrets::Redact(const absl::Status& status) const {
  absl::Status redacted(status.code(), Redact(Message(status)));
  status.ForEachPayload(
      [&redacted](absl::string_view type, const absl::Cord& payload) { redacted.SetPayload(type, payload); });
  return redacted;
}

}  // namespace mooring::cli

#include "manager/records/hide_secrets.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text/quote.h"

namespace mooring::manager {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void AddFlag(const std::string& flag, std::vector<std::string>& secrets) {
  secrets.push_back(flag);
  if (const std::size_t equals = flag.find('='); equals != std::string::npos) {
    secrets.push_back(flag.substr(equals + 1));
  }
}

std::string ValueOf(const Message& entry) {
  return entry.GetReflection()->GetString(entry, entry.GetDescriptor()->map_value());
}

void Collect(const Message& message, std::vector<std::string>& secrets) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const bool is_secret = field->name() == "secrets" || field->name() == "environment";
    const bool are_flags = field->name() == "flags" || field->name() == "mount_flags";
    if (is_message && !field->is_repeated()) Collect(reflection.GetMessage(message, field), secrets);
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      if (field->is_map()) {
        if (is_secret) secrets.push_back(ValueOf(reflection.GetRepeatedMessage(message, field, i)));
      } else if (is_message) {
        Collect(reflection.GetRepeatedMessage(message, field, i), secrets);
      } else if (are_flags) {
        AddFlag(reflection.GetRepeatedString(message, field, i), secrets);
      }
    }
  }
}

void Hide(const std::string& secret, std::string& text) {
  constexpr std::string_view kHidden = "***";
  for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + kHidden.size())) {
    text.replace(at, secret.size(), kHidden);
  }
}

}  // namespace

std::string WithoutSecretsOf(const Message& request, std::string text) {
  constexpr std::size_t kShortestHidden = 4;
  std::vector<std::string> secrets;
  Collect(request, secrets);
  std::sort(secrets.begin(), secrets.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& secret : secrets) {
    if (!secret.empty()) Hide(secret.size() < kShortestHidden ? Quote(secret) : secret, text);
  }
  return text;
}

}  // namespace mooring::manager

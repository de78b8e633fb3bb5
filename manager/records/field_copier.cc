#include "manager/records/field_copier.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <utility>

namespace mooring::manager {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// "access mode" for AccessMode.
std::string Words(const EnumDescriptor& type) {
  std::string words;
  for (const char c : type.name()) {
    if (std::isupper(c) != 0 && !words.empty()) words += ' ';
    words += static_cast<char>(std::tolower(c));
  }
  return words;
}

struct MapEntry {
  std::string key, value;
};

void CopyFields(FieldCopier& copy, MapEntry& entry) {
  copy("key", entry.key);
  copy("value", entry.value);
}

}  // namespace

std::int64_t ToMs(Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

absl::Status CheckEnum(const EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  if (value == nullptr) return InvalidArgument("{}: {} is not one of its values", Words(type), number);
  if (value->name().ends_with("_UNSPECIFIED")) return InvalidArgument("{} is missing", Words(type));
  return absl::OkStatus();
}

// A look-up by name hashes it under a lock, which made up a quarter of the time to list claims. Names are literals, so
// their addresses are enough.
const FieldDescriptor* FieldCopier::Field(const char* name) const {
  thread_local std::map<std::pair<const Descriptor*, const char*>, const FieldDescriptor*> known;
  const Descriptor* const type = message_.GetDescriptor();
  const FieldDescriptor*& field = known[{type, name}];
  if (field == nullptr) field = type->FindFieldByName(name);
  return field;
}

bool FieldCopier::HasValue(const char* name) const {
  return IsWriting() || reflection_.HasField(message_, Field(name));
}

FieldCopier FieldCopier::InField(const char* name) const {
  return IsWriting() ? To(*reflection_.MutableMessage(to_, Field(name)))
                     : From(reflection_.GetMessage(message_, Field(name)));
}

FieldCopier FieldCopier::InElement(const char* name, int index) const {
  return IsWriting() ? To(*reflection_.AddMessage(to_, Field(name)))
                     : From(reflection_.GetRepeatedMessage(message_, Field(name), index));
}

template <typename Value, typename Set, typename Get>
void FieldCopier::CopyScalar(const char* name, Value& value, Set set, Get get) {
  if (IsWriting()) {
    (reflection_.*set)(to_, Field(name), value);
  } else {
    value = (reflection_.*get)(message_, Field(name));
  }
}

void FieldCopier::operator()(const char* name, bool& value) {
  CopyScalar(name, value, &Reflection::SetBool, &Reflection::GetBool);
}
void FieldCopier::operator()(const char* name, std::int64_t& value) {
  CopyScalar(name, value, &Reflection::SetInt64, &Reflection::GetInt64);
}
void FieldCopier::operator()(const char* name, std::uint64_t& value) {
  CopyScalar(name, value, &Reflection::SetUInt64, &Reflection::GetUInt64);
}
void FieldCopier::operator()(const char* name, std::string& value) {
  CopyScalar(name, value, &Reflection::SetString, &Reflection::GetString);
}

int FieldCopier::Checked(const char* name, int number) {
  status_.Update(CheckEnum(*Field(name)->enum_type(), number));
  return number;
}

int FieldCopier::CopyEnum(const char* name, int number) {
  CopyScalar(name, number, &Reflection::SetEnumValue, &Reflection::GetEnumValue);
  return Checked(name, number);
}

// v1::Propagation has no kInherit, so its numbers are one lower.
void FieldCopier::operator()(const char* name, Propagation& value) {
  const int number = std::max(static_cast<int>(value) - 1, 0);
  const int copied = CopyEnum(name, number);
  if (status_.ok()) value = static_cast<Propagation>(copied + 1);
}

void FieldCopier::operator()(const char* name, std::vector<PluginType>& values) {
  if (IsWriting()) {
    for (const PluginType value : values) reflection_.AddEnumValue(to_, Field(name), static_cast<int>(value));
  } else {
    for (int i = 0; i < Size(name); ++i) {
      const int number = reflection_.GetRepeatedEnumValue(message_, Field(name), i);
      values.push_back(static_cast<PluginType>(Checked(name, number)));
    }
  }
}

void FieldCopier::operator()(const char* name, std::vector<std::string>& values) {
  if (IsWriting()) {
    for (const std::string& value : values) reflection_.AddString(to_, Field(name), value);
  } else {
    for (int i = 0; i < Size(name); ++i) values.push_back(reflection_.GetRepeatedString(message_, Field(name), i));
  }
}

// Reflection shows a map as a list of messages with the fields key and value.
void FieldCopier::operator()(const char* name, StringMap& values) {
  std::vector<MapEntry> entries;
  for (const auto& [key, value] : values) entries.push_back({key, value});
  (*this)(name, entries);
  for (const MapEntry& entry : entries) values[entry.key] = entry.value;
}

void FieldCopier::operator()(const char* name, Time& value) {
  std::int64_t ms = ToMs(value);
  (*this)(name, ms);
  if (ms < ToMs(Time::min()) || ms > ToMs(Time::max())) {
    status_.Update(InvalidArgument("{}: {} ms are beyond the times that a record can have", name, ms));
    return;
  }
  value = Time(std::chrono::milliseconds(ms));
}

}  // namespace mooring::manager

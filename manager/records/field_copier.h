// Copies the fields of a record to a message of proto/manager.proto, or from it. CopyFields lists the fields of a
// record once, for both directions, with the names that they have in the message:
//
//   void CopyFields(FieldCopier& copy, MountOptions& options) {
//     copy("fs_type", options.fs_type);
//     copy("flags", options.flags);
//   }
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "manager/records/records.h"

namespace mooring::manager {

std::int64_t ToMs(Time time);  // Unix time in milliseconds

// INVALID_ARGUMENT, with the name of the enum: the number is none of its values, or it is UNSPECIFIED.
absl::Status CheckEnum(const google::protobuf::EnumDescriptor& type, int number);

class FieldCopier {
 public:
  static FieldCopier To(google::protobuf::Message& message) { return {&message, message}; }
  static FieldCopier From(const google::protobuf::Message& message) { return {nullptr, message}; }

  // The first error of CheckEnum, or of a time that does not fit. Nothing else is checked.
  const absl::Status& status() const { return status_; }

  // False if the message is read and has no value. For fields with a default.
  bool HasValue(const char* name) const;

  // The message must have a field of that name and type. `name` is a string literal.
  void operator()(const char* name, bool& value);
  void operator()(const char* name, std::int64_t& value);
  void operator()(const char* name, std::uint64_t& value);
  void operator()(const char* name, std::string& value);
  void operator()(const char* name, std::vector<std::string>& values);
  void operator()(const char* name, std::vector<PluginType>& values);
  void operator()(const char* name, StringMap& values);
  void operator()(const char* name, Time& value);         // Unix time in milliseconds
  void operator()(const char* name, Propagation& value);  // kInherit becomes kPrivate

  // An enum has the same numbers in the record and in the message.
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void operator()(const char* name, Enum& value) { value = static_cast<Enum>(CopyEnum(name, static_cast<int>(value))); }

  template <typename Record>
  void operator()(const char* name, Record& record) {
    CopyRecord(InField(name), record);
  }

  template <typename Value>
  void operator()(const char* name, std::optional<Value>& value) {
    if (!IsWriting() && HasValue(name)) value.emplace();
    if (value) (*this)(name, *value);
  }

  template <typename Record>
  void operator()(const char* name, std::vector<Record>& records) {
    if (!IsWriting()) records.resize(static_cast<std::size_t>(Size(name)));
    for (int i = 0; Record & record : records) CopyRecord(InElement(name, i++), record);
  }

 private:
  FieldCopier(google::protobuf::Message* to, const google::protobuf::Message& message)
      : to_(to), message_(message), reflection_(*message.GetReflection()) {}

  bool IsWriting() const { return to_ != nullptr; }
  const google::protobuf::FieldDescriptor* Field(const char* name) const;
  int Size(const char* name) const { return reflection_.FieldSize(message_, Field(name)); }
  int CopyEnum(const char* name, int number);
  int Checked(const char* name, int number);

  template <typename Value, typename Set, typename Get>
  void CopyScalar(const char* name, Value& value, Set set, Get get);

  // For the message in a field, and for one of a list, which is added if the list is written.
  FieldCopier InField(const char* name) const;
  FieldCopier InElement(const char* name, int index) const;

  template <typename Record>
  void CopyRecord(FieldCopier copy, Record& record) {
    CopyFields(copy, record);
    status_.Update(copy.status());
  }

  google::protobuf::Message* to_;  // null: the record is read
  const google::protobuf::Message& message_;
  const google::protobuf::Reflection& reflection_;
  absl::Status status_;
};

// Takes a copy, because CopyFields takes records that it may change.
template <typename Message, typename Record>
Message ToMessage(Record record) {
  Message message;
  FieldCopier copy = FieldCopier::To(message);
  CopyFields(copy, record);
  return message;
}

template <typename Record>
absl::StatusOr<Record> FromMessage(const google::protobuf::Message& message) {
  Record record;
  FieldCopier copy = FieldCopier::From(message);
  CopyFields(copy, record);
  MOORING_RETURN_IF_ERROR(copy.status());
  return record;
}

}  // namespace mooring::manager

// Helpers that both files of the record codec use for fields.
#ifndef MOORING_MANAGER_RECORDS_RECORD_FIELDS_H_
#define MOORING_MANAGER_RECORDS_RECORD_FIELDS_H_

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "manager/records/records.h"

namespace mooring::manager {

// Pairs of a value of a record's enum and a value of a message's enum.
template <typename Value, typename Message, std::size_t n>
using Table = std::array<std::pair<Value, Message>, n>;

template <typename Value, typename Message, std::size_t n>
Message Put(const Table<Value, Message, n>& table, Value value) {
  for (const auto& [ours, theirs] : table) {
    if (ours == value) return theirs;
  }
  return table.front().second;  // not reached: every enumerator has a row
}

template <typename Value, typename Message, std::size_t n>
absl::StatusOr<Value> Get(const Table<Value, Message, n>& table, std::string_view field, Message message) {
  for (const auto& [ours, theirs] : table) {
    if (theirs == message) return ours;
  }
  if (message == 0) return InvalidArgument(fmt::format("{} is missing", field));
  return InvalidArgument(fmt::format("{}: {} is not one of its values", field, static_cast<int>(message)));
}

template <typename Map>
void CopyTo(const StringMap& from, Map& to) {
  for (const auto& [key, value] : from) to[key] = value;
}

template <typename Map>
StringMap Copied(const Map& from) {
  return {from.begin(), from.end()};
}

template <typename List>
std::vector<std::string> Strings(const List& from) {
  return {from.begin(), from.end()};
}

template <typename List>
void CopyTo(const std::vector<Topology>& from, List& to) {
  for (const Topology& topology : from) CopyTo(topology.segments, *to.Add()->mutable_segments());
}

template <typename List>
std::vector<Topology> Topologies(const List& from) {
  std::vector<Topology> to;
  for (const auto& topology : from) to.push_back({.segments = Copied(topology.segments())});
  return to;
}

template <typename Message>
void SetRevisions(const Revisions& revisions, Message& message) {
  message.set_create_revision(revisions.create);
  message.set_modify_revision(revisions.modify);
}

template <typename Message>
Revisions RevisionsIn(const Message& message) {
  return {.create = message.create_revision(), .modify = message.modify_revision()};
}

}  // namespace mooring::manager

#endif  // MOORING_MANAGER_RECORDS_RECORD_FIELDS_H_

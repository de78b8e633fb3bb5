#include "manager/state/unreadable_records.h"

#include "base/log.h"

namespace mooring::manager {

void UnreadableRecords::Note(const std::string& key, const std::string& why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string& known = why_[key];
    if (known == why) return;
    known = why;
  }
  log::Warning("a record of the manager's state is left out", {{"cause", why}});
}

void UnreadableRecords::NoteReadable(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  why_.erase(key);
}

void UnreadableRecords::KeepOnly(const std::string& prefix, const std::set<std::string>& unreadable) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(
      why_, [&](const auto& known) { return known.first.starts_with(prefix) && !unreadable.contains(known.first); });
}

std::optional<std::string> UnreadableRecords::WhyAt(const std::string& prefix) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = why_.lower_bound(prefix);
  if (found == why_.end() || !found->first.starts_with(prefix)) return std::nullopt;
  return found->second;
}

bool UnreadableRecords::Has(const std::string& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return why_.contains(key);
}

std::vector<std::string> UnreadableRecords::Messages() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> messages;
  for (const auto& [key, why] : why_) messages.push_back(why);
  return messages;
}

}  // namespace mooring::manager

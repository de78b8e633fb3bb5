// The records of the state that were found damaged. A list leaves them out, so that they stop nothing else.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mooring::manager {

// Safe from several threads.
class UnreadableRecords {
 public:
  void Note(const std::string& key, const std::string& why);  // the first time with a warning in the log
  void NoteReadable(const std::string& key);                  // somebody has repaired it
  // After a list of the keys with this prefix: the others among them were deleted.
  void KeepOnly(const std::string& prefix, const std::set<std::string>& unreadable);

  bool Has(const std::string& key) const;
  std::optional<std::string> WhyAt(const std::string& prefix) const;  // why the first with this prefix cannot be read
  std::vector<std::string> Messages() const;                          // why each cannot be read

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> why_;  // by key; under mutex_
};

}  // namespace mooring::manager

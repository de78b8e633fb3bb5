// What the two databases have in common: they open on a full disk, and where other processes have them open; and how
// they write a propagation down.
#ifndef MOORING_PLUGIN_SQLITE_H_
#define MOORING_PLUGIN_SQLITE_H_

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "mounter/mounter.h"

namespace SQLite {
class Database;
class Exception;
}  // namespace SQLite

namespace mooring {

inline constexpr std::chrono::milliseconds kBusyTimeout{5000};  // others write for microseconds

// WAL, with -wal (emptied) and -shm left in place by the last to close: without the 32 KiB of -shm nobody can open the
// database, not even to read, and on a full disk there would be no other 32 KiB.
void UseWal(SQLite::Database& database);

// SQLite has no code of its own for a -shm that finds no room.
bool IsDiskFull(const SQLite::Exception& error);

// In a column: its word, empty for none. What is no word, which only another program can have written, is none.
std::string PropagationText(std::optional<Propagation> propagation);
std::optional<Propagation> PropagationIn(const std::string& text);

// Two processes that make the file at the same moment: changing to WAL is refused at once where another connection is
// in the way, whatever the busy timeout says. So the whole opening is repeated while it is ABORTED.
template <typename Open>
auto RepeatWhileBusy(Open open) -> decltype(open()) {
  const auto deadline = std::chrono::steady_clock::now() + kBusyTimeout;
  while (true) {
    auto store = open();
    if (!absl::IsAborted(store.status()) || std::chrono::steady_clock::now() >= deadline) return store;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace mooring

#endif  // MOORING_PLUGIN_SQLITE_H_

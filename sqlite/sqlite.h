// What the databases have in common: they open on a full disk, and where other processes have them open.
#ifndef MOORING_SQLITE_SQLITE_H_
#define MOORING_SQLITE_SQLITE_H_

#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"

namespace mooring {

inline constexpr std::chrono::milliseconds kBusyTimeout{5000};  // others write for microseconds

// WAL, with -wal (emptied) and -shm left in place by the last to close: without the 32 KiB of -shm nobody can open the
// database, not even to read, and on a full disk there would be no other 32 KiB.
void UseWal(SQLite::Database& database);

// Makes the file (0600) where it is missing; `what` ("the volume catalog") is for the message.
absl::Status MakePrivateFile(const std::string& path, std::string_view what);

// SQLite has no code of its own for a -shm that finds no room.
bool IsDiskFull(const SQLite::Exception& error);

// A prepared statement in use. It is reset whatever happens: one left half read would hold its snapshot open for ever.
class Use {
 public:
  template <typename... Values>
  explicit Use(SQLite::Statement& statement, const Values&... values) : statement_(statement) {
    int index = 0;
    (statement_.bind(++index, values), ...);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { statement_.tryReset(); }

  bool Step() { return statement_.executeStep(); }
  int Exec() { return statement_.exec(); }  // rows changed
  std::string Text(int column) { return statement_.getColumn(column).getString(); }
  std::int64_t Number(int column) { return statement_.getColumn(column).getInt64(); }
  bool IsNull(int column) { return statement_.getColumn(column).isNull(); }

 private:
  SQLite::Statement& statement_;
};

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

#endif  // MOORING_SQLITE_SQLITE_H_

// A task in a user namespace, whose ids from 0 on are those from 100000 on of the host: container engines start such.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace mooring::testing {

// It is root in its namespace.
class UserNamespaceTask {
 public:
  // `work` runs in the task, in this directory if one is given, which the task has entered as root of the host. Without
  // work the task lives until its end is asked for.
  explicit UserNamespaceTask(const std::function<int()>& work = {}, const std::string& directory = "");
  UserNamespaceTask(const UserNamespaceTask&) = delete;
  UserNamespaceTask& operator=(const UserNamespaceTask&) = delete;
  ~UserNamespaceTask();  // ends it

  int Wait();                     // the result of the work
  std::string Namespace() const;  // the path of its user namespace

 private:
  pid_t pid_ = -1;
};

inline constexpr char kIdMapOfTask[] = "b:0:100000:65536";  // with which it owns a volume

// The task sees that the directory is its own, and makes a file in it, "file". Returns 0, or the first thing that is
// wrong. 1, 2: the directory is not its own. 3: it cannot write. 4: the file is not its own.
int WriteAsTask(const std::string& directory);

std::string OwnerAt(const std::string& path);  // "100000:100000"

}  // namespace mooring::testing

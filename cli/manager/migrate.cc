// mooring manager migrate: becomes `mooring-manager migrate`, which has the same flags. It does not call the manager,
// because the manager of this host must be stopped.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <variant>
#include <vector>

#include "base/status.h"
#include "cli/command/command_table.h"
#include "cli/manager/command.h"

namespace mooring::cli::migrate_command {
namespace {

struct MigrateArguments {
  std::string to, state, state_dir, host;
  std::string etcd_ca, etcd_cert, etcd_key, etcd_user, etcd_password_file, etcd_prefix, etcd_secrets_key, etcd_lease;
  bool etcd_insecure = false;
  bool json = false;
};

using Flag = FlagOf<MigrateArguments>;
using Command = CommandOf<MigrateArguments, const char*>;  // `run`: the command of mooring-manager

constexpr Flag kTo{"--to", "PLACE", "New place: etcd://HOST:PORT,..., or sqlite, from the etcd of --state",
                   &MigrateArguments::to};
constexpr Flag kState{"--state", "STATE", "With --to sqlite: the etcd from which to move", &MigrateArguments::state};
constexpr Flag kStateDir{"--state-dir", "DIR", "Directory of the manager's state", &MigrateArguments::state_dir, "",
                         false};
constexpr Flag kHost{"--host", "NAME", "Name of this host in the state", &MigrateArguments::host};
constexpr Flag kEtcdCa{"--etcd-ca", "FILE", "CA of etcd's certificates", &MigrateArguments::etcd_ca, "", false};
constexpr Flag kEtcdCert{"--etcd-cert", "FILE", "This host's certificate for etcd", &MigrateArguments::etcd_cert, "",
                         false};
constexpr Flag kEtcdKey{"--etcd-key", "FILE", "Key of --etcd-cert", &MigrateArguments::etcd_key, "", false};
constexpr Flag kEtcdUser{"--etcd-user", "USER", "User of etcd", &MigrateArguments::etcd_user};
constexpr Flag kEtcdPasswordFile{
    "--etcd-password-file", "FILE", "Password of --etcd-user", &MigrateArguments::etcd_password_file, "", false};
constexpr Flag kEtcdPrefix{"--etcd-prefix", "PREFIX", "Prefix of all keys in etcd", &MigrateArguments::etcd_prefix};
constexpr Flag kEtcdSecretsKey{
    "--etcd-secrets-key", "FILE", "Key that encrypts secrets in etcd", &MigrateArguments::etcd_secrets_key, "", false};
constexpr Flag kEtcdLease{"--etcd-lease", "SECONDS", "Duration of this host's lease", &MigrateArguments::etcd_lease};
constexpr Flag kEtcdInsecure{"--etcd-insecure", "", "Allow connections to etcd over a network without TLS",
                             &MigrateArguments::etcd_insecure};
constexpr Flag kJson{"--json", "", "Print the answer as JSON", &MigrateArguments::json};

// The flag as it was given; empty: it was not.
std::vector<std::string> Given(const Flag& flag, const MigrateArguments& arguments) {
  if (const auto* const text = std::get_if<std::string MigrateArguments::*>(&flag.slot)) {
    const std::string& value = arguments.**text;
    return value.empty() ? std::vector<std::string>() : std::vector<std::string>{flag.name, value};
  }
  const auto* const is_set = std::get_if<bool MigrateArguments::*>(&flag.slot);
  return is_set != nullptr && arguments.**is_set ? std::vector<std::string>{flag.name} : std::vector<std::string>();
}

// Beside this program, or else in PATH.
std::string ManagerProgram() {
  constexpr char kName[] = "mooring-manager";
  std::error_code error;
  const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / kName;
  return !error && ::access(beside.c_str(), X_OK) == 0 ? beside.string() : kName;
}

absl::StatusOr<int> Become(const Command& command, MigrateArguments& arguments, const Streams& /*streams*/) {
  std::vector<std::string> words = {ManagerProgram(), command.run};
  for (const auto& flags : {command.required, command.optional}) {
    for (const Flag* flag : flags) {
      for (std::string& word : Given(*flag, arguments)) words.push_back(std::move(word));
    }
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  return ErrnoStatus(errno, "run", words[0]);
}

std::vector<Command> MigrateCommands() {
  return {{"migrate",
           "Move volumes and claims to an etcd that many hosts share, or back",
           {&kTo},
           {&kState, &kStateDir, &kHost, &kEtcdCa, &kEtcdCert, &kEtcdKey, &kEtcdUser, &kEtcdPasswordFile, &kEtcdPrefix,
            &kEtcdSecretsKey, &kEtcdLease, &kEtcdInsecure, &kJson},
           "migrate",
           "Stop the manager of this host first. Each flag is also a variable, as for mooring-manager(8).\n\n"
           "Examples:\n"
           "  mooring manager migrate --to etcd://10.0.0.1:2379 --etcd-ca /etc/mooring/ca.pem\n"
           "  mooring manager migrate --to sqlite --state etcd://10.0.0.1:2379 --etcd-ca /etc/mooring/ca.pem"}};
}

}  // namespace

void Add(CLI::App& manager, Action& chosen) {
  const CommandTable<Command> table{.execute = Become, .every_command = {}};
  table.Add(manager, {"", "", {MigrateCommands}}, chosen);
}

}  // namespace mooring::cli::migrate_command

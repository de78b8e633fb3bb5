// The manager's records in etcd, whose answers may be wrong. The invariants:
//
//   nothing crashes or goes on for ever, and no error contains a secret
//   no secret reaches etcd in clear text
//   a record of a list is that of its key; each other key in the list is named as unreadable
//   a commit that fails changes nothing, unless the error says that it is not known. If it succeeds, it is made
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/status.h"
#include "base/text/quote.h"
#include "manager/etcd/etcd_state.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"
#include "manager/state/records_store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/manager/fake_etcd.h"
#include "tests/fuzz/messages/message_mutator.h"

// gRPC's threads may end after the last search for leaks.
extern "C" const char* __lsan_default_suppressions() { return "leak:grpc::ThreadManager\n"; }

namespace mooring::fuzz {
namespace {

using namespace manager;  // NOLINT(google-build-using-namespace)
using Values = std::map<std::string, mvccpb::KeyValue>;

constexpr char kRoot[] = "/m/";
constexpr int kMostSteps = 10;

// The key file of secrets, and the password.
std::string SecretFile(const std::string& name, const std::string& text) {
  static const std::string directory = [] {
    std::string path = (std::filesystem::temp_directory_path() / "mooring-etcd.XXXXXX").string();
    Require(::mkdtemp(path.data()) != nullptr, "a directory can be made", path);
    return path;
  }();
  const std::string path = directory + "/" + name;
  std::ofstream(path) << text;
  ::chmod(path.c_str(), 0600);
  return path;
}

EtcdSettings Settings(const Input& input) {
  static const std::string key = SecretFile("key", std::string(64, 'a')),
                           password = SecretFile("password", "hunter2-secret");
  EtcdSettings settings;
  settings.connection.endpoints = "etcd://localhost:1";
  settings.connection.try_timeout = std::chrono::milliseconds(1);
  if (input.has_user()) {
    settings.connection.user = "mooring";
    settings.connection.password_file = password;
  }
  settings.prefix = kRoot;
  settings.host = "host-1";
  settings.id = "id-1@boot-1";
  settings.cluster = input.cluster();
  settings.lease_ttl = std::chrono::hours(1);
  settings.secrets_key_file = key;
  return settings;
}

// The values that a commit of the manager can change.
std::map<std::string, std::string> Records(const Values& values) {
  std::map<std::string, std::string> records;
  for (const auto& [key, value] : values) {
    if (!key.starts_with(LivePrefix()) && key != ClusterKey()) records[key] = value.value();
  }
  return records;
}

std::string KeyOf(const Volume& volume) { return VolumeStateKey(volume.key); }
std::string KeyOf(const Claim& claim) { return ClaimStateKey(claim.volume, claim.mode, claim.allocation); }
std::string KeyOf(const Host& host) { return HostStateKey(host.name); }

class EtcdWorld {
 public:
  explicit EtcdWorld(const Input& input) : etcd_(FakeEtcd::Get()), knows_secret_(HasSecret(input.SerializeAsString())) {
    etcd_.Begin(input, kRoot);
    auto state = OpenEtcdState(Settings(input));
    Check(state.status());
    if (!state.ok()) return;
    state_ = *std::move(state);
    store_ = std::make_unique<RecordsStore>(*state_);
  }

  void Do(const Step& step) {
    if (store_ == nullptr) return;
    before_ = etcd_.Values();
    const VolumeKey key = {.ns = step.volume().namespace_().empty() ? "default" : step.volume().namespace_(),
                           .id = step.volume().id()};
    switch (step.kind()) {
      case Step::LIST_VOLUMES:
        return CheckList(store_->ListVolumes(), VolumesPrefix());
      case Step::LIST_CLAIMS:
        return CheckList(store_->ListClaims(), ClaimsPrefix());
      case Step::LIST_HOSTS:
        return CheckList(store_->ListHosts(), HostsPrefix());
      case Step::VISIT_CLAIMS:
        return CheckList(store_->ListClaims([](const Claim&) { return true; }), ClaimsPrefix());
      case Step::CLAIMS_OF:
        return CheckRecords(store_->ListClaims(key), ClaimsPrefix(key));
      case Step::GET_VOLUME:
        return CheckVolume(store_->GetVolume(key), key);
      case Step::GET_USE:
        return Check(store_->GetVolumeUse(key).status());
      case Step::GET_HOST:
        return Check(store_->GetHost(step.name()).status());
      case Step::PUT_VOLUME:
        return Put(key);
      case Step::CHANGE_VOLUME:
        return Change(key);
      case Step::DELETE_VOLUME:
        return Delete(key);
      case Step::COMMIT:
        return Commit(step);
      case Step::WATCH:
        return Watch(step);
      case Step::END_LEASE:
      default:
        return etcd_.EndLeases();
    }
  }

 private:
  void Check(const absl::Status& status) {
    const std::string message = Message(status);
    Show(status.ok() ? "ok" : status.ToString());
    Require(status.ok() || !message.empty(), "an error has a message");
    Require(IsUtf8(message) && !HasControlByte(message), "an error can be logged", message);
    if (knows_secret_) return;
    Require(!HasSecret(message), "no error contains a secret", message);
    Require(!etcd_.HasSecret(), "no secret reaches etcd in clear text");
  }

  template <typename Record>
  void CheckRecords(const absl::StatusOr<std::vector<Record>>& records, const std::string& prefix) {
    Check(records.status());
    if (!records.ok()) return;
    std::set<std::string> seen;
    for (const Record& record : *records) {
      Require(KeyOf(record).starts_with(prefix), "a record of a list is below its prefix", KeyOf(record));
      Require(seen.insert(KeyOf(record)).second, "no record is listed twice", KeyOf(record));
      if (etcd_.HasLied()) continue;
      const auto stored = before_.find(KeyOf(record));
      Require(stored != before_.end(), "a record is that of its key", KeyOf(record));
      Require(stored->second.mod_revision() == record.revisions.modify, "a record has its revision", KeyOf(record));
    }
  }

  template <typename Record>
  void CheckList(const absl::StatusOr<std::vector<Record>>& records, const std::string& prefix) {
    CheckRecords(records, prefix);
    if (!records.ok() || etcd_.HasLied()) return;
    std::set<std::string> listed;
    for (const Record& record : *records) listed.insert(KeyOf(record));
    for (auto at = before_.lower_bound(prefix); at != before_.end() && at->first.starts_with(prefix); ++at) {
      Require(listed.contains(at->first) != store_->IsUnreadable(at->first),
              "a key in a list is a record, or is named as unreadable", at->first);
    }
    const auto why = store_->WhyUnreadable();
    for (const std::string& one : why) Check(Internal("{}", one));
  }

  void CheckVolume(const absl::StatusOr<Volume>& volume, const VolumeKey& key) {
    Check(volume.status());
    if (!volume.ok()) return;
    Require(volume->key == key, "a record is that of its key", volume->key.id);
    Require(knows_secret_ || !HasSecret(volume->secrets_problem), "no error contains a secret",
            volume->secrets_problem);
    // A secret that was put is the same again, or does not fit its key any more.
    if (!etcd_.HasLied() && put_.contains(key) && volume->has_secrets && volume->secrets_problem.empty()) {
      v1::StoredSecrets secrets;
      volume->secrets.CopyTo(*secrets.mutable_secrets());
      Require(secrets.secrets().size() == 1 && secrets.secrets().at("key") == kSecret,
              "a secret is read as it was put");
    }
  }

  // Gives what the commit has told.
  template <typename Result>
  bool CheckChange(const Result& result, std::string_view kind) {
    Check(result.status());
    if (etcd_.HasLied() || result.ok()) return result.ok();
    const bool unknown = Message(result.status()).find("not known") != std::string::npos;
    Require(unknown || Records(before_) == Records(etcd_.Values()),
            "a change that fails changes nothing, or says that it is not known",
            std::string(kind) + Message(result.status()));
    return false;
  }

  void Put(const VolumeKey& key) {
    Volume volume;
    volume.key = key;
    volume.name = "n";
    volume.plugin = "p";
    volume.capabilities = {{}};
    volume.secrets = Secrets({{"key", std::string(kSecret)}});
    volume.mount_options.flags = {"password=hunter2-secret"};
    const auto stored = store_->PutVolume(volume);
    if (!CheckChange(stored, "put ") || etcd_.HasLied()) return;
    put_.insert(key);
    const Values now = etcd_.Values();
    const auto found = now.find(VolumeStateKey(key));
    Require(found != now.end() && found->second.mod_revision() == stored->revisions.modify, "a change is made");
    Require(now.contains(SecretsStateKey(key)) && now.contains(MountFlagsStateKey(key)), "the secrets are put, too");
  }

  void Change(const VolumeKey& key) {
    int tries = 0;
    const auto changed = store_->ChangeVolume(key, [&](Volume& volume) -> absl::StatusOr<bool> {
      if (++tries > 100) return Internal("tried again and again");
      volume.external_id += "x";
      return true;
    });
    Require(tries <= 100 || etcd_.HasLied(), "a change is not tried for ever");
    CheckChange(changed, "change ");
  }

  void Delete(const VolumeKey& key) {
    const auto volume = store_->GetVolume(key);
    Check(volume.status());
    if (!volume.ok()) return;
    const auto deleted = store_->Commit(Changes().Delete(*volume));
    if (!CheckChange(deleted, "delete ") || etcd_.HasLied()) return;
    Require(!etcd_.Values().contains(VolumeStateKey(key)), "a deleted record is gone");
  }

  void Commit(const Step& step) {
    Transaction transaction;
    for (const std::string& key : step.puts()) transaction.puts.push_back({.key = key, .value = step.name()});
    for (const std::string& key : step.deletes()) transaction.deletes.push_back(key);
    for (const std::string& key : step.compares()) {
      transaction.compares.push_back({.key = key, .modify_revision = step.revision()});
    }
    if (!CheckChange(state_->Commit(transaction), "commit ") || etcd_.HasLied()) return;
    const Values now = etcd_.Values();
    for (const auto& put : transaction.puts) {
      const auto found = now.find(put.key);
      Require(found != now.end() && (IsSecret(put.key) || found->second.value() == put.value), "a put is made",
              put.key);
    }
    for (const std::string& key : transaction.deletes) Require(!now.contains(key), "a delete is made", key);
  }

  void Watch(const Step& step) {
    const auto watch = state_->StartWatch(SharedPrefix(), step.revision());
    Check(watch.status());
    if (!watch.ok()) return;
    const auto changes = (*watch)->Next(std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
    Check(changes.status());
    if (!changes.ok()) return;
    for (const manager::Change& change : *changes) {
      Require(!IsSecret(change.value.key) || change.value.value.empty(), "a watch gives no secret", change.value.key);
      Require(change.value.modify_revision >= step.revision(), "a watch gives nothing older", change.value.key);
    }
  }

  FakeEtcd& etcd_;
  const bool knows_secret_;  // it is in the input, as the name of a volume
  std::unique_ptr<manager::State> state_;
  std::unique_ptr<RecordsStore> store_;
  Values before_;
  std::set<VolumeKey> put_;
};

// clang-format off
const std::vector<std::string> kWords = {
    "default", "db", "web", "prod", "host-1", "host-2", "alloc-1", "p", "vol-1", "shared/volumes/default/db",
    "shared/volumes/default/web", "shared/volumes/prod/db", "shared/volumes/", "shared/claims/default/db/write/alloc-1",
    "shared/claims/default/db/read/alloc-1", "shared/hosts/host-1", "shared/hosts/host-2", "shared/cluster",
    "shared/secrets/default/db", "shared/new-volumes", "live/host-1", "/m/shared/volumes/default/db",
    "/m/shared/volumes/default/web", "/m/shared/claims/default/db/write/alloc-1", "/m/shared/hosts/host-1",
    "/m/shared/secrets/default/db", "/m/live/host-1", "/m/shared/cluster", "/m", "/m/", "id-1@boot-1 now",
    "id-1@boot-0 now", "id-2@boot-1 now", "0123456789abcdef", "no leader", "context deadline exceeded",
    "etcdserver: too many requests", "etcdserver: mvcc: required revision has been compacted",
    "etcdserver: invalid auth token", "etcdserver: request timed out", "etcdserver: mvcc: database space exceeded", ""};
// clang-format on

}  // namespace
}  // namespace mooring::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mooring::fuzz::MutateInput(data, size, most, seed, mooring::fuzz::Input(), mooring::fuzz::kWords);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data1, std::size_t size1,
                                                 const std::uint8_t* data2, std::size_t size2, std::uint8_t* out,
                                                 std::size_t most, unsigned seed) {
  return mooring::fuzz::CrossInputs(data1, size1, data2, size2, out, most, seed, mooring::fuzz::Input());
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mooring::fuzz;  // NOLINT(google-build-using-namespace)
  Input input;
  if (!ParseInput(data, size, input)) return -1;
  EtcdWorld world(input);
  for (int i = 0; i < std::min(input.steps_size(), kMostSteps); ++i) world.Do(input.steps(i));
  return 0;
}

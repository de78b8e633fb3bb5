#include "manager/plugins/stored_instances.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "manager/records/record_codec.h"
#include "manager/state/keys.h"

namespace mooring::manager {

absl::StatusOr<std::vector<InstanceInfo>> LoadInstances(State& state, const std::string& host) {
  std::vector<InstanceInfo> instances;
  MOORING_ASSIGN_OR_RETURN(const std::optional<KeyValue> stored, state.Get(RegistryStateKey(host)));
  if (!stored) return instances;
  v1::StoredRegistry message;
  if (!message.ParseFromString(stored->value)) {
    log::Warning("the stored plugin registry is damaged: instances are registered again when they answer",
                 {{"host", host}});
    return instances;
  }
  for (const v1::Instance& each : message.instances()) {
    absl::StatusOr<InstanceInfo> instance = FromProto(each);
    if (instance.ok()) {
      instances.push_back(*std::move(instance));
    } else {
      log::Warning("an instance in the stored plugin registry is damaged, and is left out",
                   {{"plugin", each.name()}, {"cause", Message(instance.status())}});
    }
  }
  return instances;
}

absl::Status StoreInstances(State& state, const std::string& host, const std::vector<InstanceInfo>& instances) {
  v1::StoredRegistry message;
  for (const InstanceInfo& instance : instances) *message.add_instances() = ToProto(instance);
  Transaction transaction;
  transaction.puts.push_back({RegistryStateKey(host), message.SerializeAsString()});
  return Annotate(state.Commit(transaction).status(), "store the registry of plugins");
}

}  // namespace mooring::manager

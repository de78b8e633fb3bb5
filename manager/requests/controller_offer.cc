#include "manager/requests/controller_offer.h"

#include "base/log.h"
#include "base/status.h"
#include "manager.pb.h"
#include "manager/records/field_copier.h"

namespace mooring::manager {

static void CopyFields(FieldCopier& copy, PluginTraits& traits) {
  copy("controller_service", traits.controller_service);
  copy("group_controller_service", traits.group_controller_service);
  copy("topology", traits.topology);
  copy("expands_online", traits.expands_online);
  copy("expands_offline", traits.expands_offline);
  copy("creates", traits.creates);
  copy("publishes", traits.publishes);
  copy("publishes_read_only", traits.publishes_read_only);
  copy("lists", traits.lists);
  copy("snapshots", traits.snapshots);
  copy("lists_snapshots", traits.lists_snapshots);
  copy("clones", traits.clones);
  copy("controller_expands", traits.controller_expands);
  copy("controller_single_writer", traits.controller_single_writer);
}

static void CopyFields(FieldCopier& copy, ControllerOffer& offer) {
  copy("plugin", offer.plugin);
  copy("host", offer.host);
  copy("driver_name", offer.fingerprint.driver_name);
  copy("vendor_version", offer.fingerprint.vendor_version);
  copy("traits", offer.fingerprint.traits);
  copy("topology", offer.fingerprint.topology);
}

std::string ToValue(const ControllerOffer& offer) { return ToMessage<v1::ControllerOffer>(offer).SerializeAsString(); }

std::optional<ControllerOffer> ToOffer(const KeyValue& stored) {
  v1::ControllerOffer message;
  if (message.ParseFromString(stored.value)) {
    absl::StatusOr<ControllerOffer> offer = FromMessage<ControllerOffer>(message);
    if (offer.ok() && !offer->plugin.empty() && !offer->host.empty()) {
      offer->fingerprint.healthy = true;
      offer->fingerprint.complete = true;
      offer->fingerprint.at = std::chrono::system_clock::now();
      return *std::move(offer);
    }
  }
  log::Warning("a controller offer in the shared state is damaged, and is ignored", {{"key", stored.key}});
  return std::nullopt;
}

InstanceInfo InstanceOf(const ControllerOffer& offer) {
  InstanceInfo instance;
  instance.type = PluginType::kController;
  instance.name = offer.plugin;
  instance.version = offer.fingerprint.vendor_version;
  instance.instance_id = offer.host;
  instance.provider = "host";
  return instance;
}

}  // namespace mooring::manager

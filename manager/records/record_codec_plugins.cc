// The codec for records of plugins and instances; record_codec.cc has the others.
#include <chrono>

#include "base/status.h"
#include "manager/records/record_codec.h"
#include "manager/records/record_fields.h"

namespace mooring::manager {
namespace {

constexpr Table<PluginType, v1::PluginType, 2> kPluginTypeTable = {{
    {PluginType::kNode, v1::CSI_NODE},
    {PluginType::kController, v1::CSI_CONTROLLER},
}};
constexpr Table<PluginRecord::Run::Kind, v1::PluginRun::Kind, 2> kRunKinds = {{
    {PluginRecord::Run::Kind::kExec, v1::PluginRun::EXEC},
    {PluginRecord::Run::Kind::kContainer, v1::PluginRun::CONTAINER},
}};

}  // namespace

absl::StatusOr<PluginType> FromProto(v1::PluginType type) { return Get(kPluginTypeTable, "plugin type", type); }
v1::PluginType ToProto(PluginType type) { return Put(kPluginTypeTable, type); }

v1::PluginBind ToProto(const PluginRecord::Bind& bind) {
  v1::PluginBind message;
  message.set_source(bind.source);
  message.set_target(bind.target);
  message.set_read_only(bind.read_only);
  message.set_propagation(ToProto(bind.propagation));
  return message;
}

absl::StatusOr<PluginRecord::Bind> FromProto(const v1::PluginBind& message) {
  MOORING_ASSIGN_OR_RETURN(const Propagation propagation, FromProto(message.propagation()));
  return PluginRecord::Bind{message.source(), message.target(), message.read_only(), propagation};
}

v1::PluginRun ToProto(const PluginRecord::Run& run) {
  v1::PluginRun message;
  message.set_kind(Put(kRunKinds, run.kind));
  message.mutable_command()->Assign(run.command.begin(), run.command.end());
  message.set_image(run.image);
  CopyTo(run.environment, *message.mutable_environment());
  message.set_engine(run.engine);
  message.set_start_deadline_s(run.start_deadline.count());
  message.set_generation(run.generation);
  for (const PluginRecord::Bind& bind : run.binds) *message.add_binds() = ToProto(bind);
  return message;
}

absl::StatusOr<PluginRecord::Run> FromProto(const v1::PluginRun& message) {
  PluginRecord::Run run;
  MOORING_ASSIGN_OR_RETURN(run.kind, Get(kRunKinds, "kind of run", message.kind()));
  run.command = Strings(message.command());
  run.image = message.image();
  run.environment = Copied(message.environment());
  run.engine = message.engine();
  if (message.start_deadline_s() != 0) run.start_deadline = std::chrono::seconds(message.start_deadline_s());
  if (message.generation() != 0) run.generation = message.generation();
  for (const v1::PluginBind& bind : message.binds()) {
    MOORING_ASSIGN_OR_RETURN(run.binds.emplace_back(), FromProto(bind));
  }
  return run;
}

v1::PluginRecord ToProto(const PluginRecord& plugin) {
  v1::PluginRecord message;
  message.set_name(plugin.name);
  message.mutable_declared_by()->Assign(plugin.declared_by.begin(), plugin.declared_by.end());
  if (plugin.run) *message.mutable_run() = ToProto(*plugin.run);
  message.set_endpoint(plugin.endpoint);
  for (const PluginType type : plugin.types) message.add_types(ToProto(type));
  SetRevisions(plugin.revisions, message);
  return message;
}

absl::StatusOr<PluginRecord> FromProto(const v1::PluginRecord& message) {
  PluginRecord plugin;
  plugin.name = message.name();
  plugin.declared_by = Strings(message.declared_by());
  if (message.has_run()) {
    MOORING_ASSIGN_OR_RETURN(plugin.run, FromProto(message.run()));
  }
  plugin.endpoint = message.endpoint();
  for (const int type : message.types()) {
    MOORING_ASSIGN_OR_RETURN(plugin.types.emplace_back(), FromProto(static_cast<v1::PluginType>(type)));
  }
  plugin.revisions = RevisionsIn(message);
  return plugin;
}

v1::Instance ToProto(const InstanceInfo& instance) {
  v1::Instance message;
  message.set_type(ToProto(instance.type));
  message.set_name(instance.name);
  message.set_version(instance.version);
  message.set_socket_path(instance.socket_path);
  message.set_instance_id(instance.instance_id);
  message.set_provider(instance.provider);
  message.set_mount_point(instance.mount_point);
  message.set_container_mount_point(instance.container_mount_point);
  return message;
}

absl::StatusOr<InstanceInfo> FromProto(const v1::Instance& message) {
  MOORING_ASSIGN_OR_RETURN(const PluginType type, FromProto(message.type()));
  return InstanceInfo{.type = type,
                      .name = message.name(),
                      .version = message.version(),
                      .socket_path = message.socket_path(),
                      .instance_id = message.instance_id(),
                      .provider = message.provider(),
                      .mount_point = message.mount_point(),
                      .container_mount_point = message.container_mount_point()};
}

}  // namespace mooring::manager

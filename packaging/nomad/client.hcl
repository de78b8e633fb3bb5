# What the Nomad client of a node that runs Mooring needs in its configuration, beside its own.
# Checked by tests/nomad; docs/nomad.md tells why.

plugin "docker" {
  config {
    # The plugin mounts, formats and attaches loop devices: `privileged = true` in the plugin's job.
    allow_privileged = true

    # Host paths in `volumes`: the state directory. (CSI volumes of tasks need neither of the two.)
    volumes {
      enabled = true
    }

    # An image that was built on the node is in no registry: without this Nomad removes it minutes after the plugin's job has
    # stopped, and the next start finds none. Leave it out where the image comes from a registry.
    gc {
      image = false
    }
  }
}

client {
  # At least the kill_timeout of plugin.nomad.hcl: Nomad cuts a task's own down to this. 30s is its default.
  max_kill_timeout = "30s"
}

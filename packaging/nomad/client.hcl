# Add this to the configuration of a Nomad client whose node runs Mooring. docs/nomad.md says why.

plugin "docker" {
  config {
    # The plugin mounts, formats and attaches loop devices: `privileged = true` in the plugin's job.
    allow_privileged = true

    # Host paths in `volumes`: the state directory. CSI volumes of tasks need neither setting.
    volumes {
      enabled = true
    }

    # Without this setting Nomad removes an image minutes after the plugin's job has stopped. The next start would not find an
    # image that was built on the node. Omit it if the image comes from a registry.
    gc {
      image = false
    }
  }
}

client {
  # At least the kill_timeout of plugin.nomad.hcl, because Nomad limits a task's kill_timeout to this. 30s is the default.
  max_kill_timeout = "30s"
}

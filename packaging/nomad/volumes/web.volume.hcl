# A filesystem for a single task at a time: nomad volume create web.volume.hcl
id        = "web"
name      = "web"
type      = "csi"
plugin_id = "mooring-n1" # the id in csi_plugin, of the volume's node

# Bytes, or with a unit. The filesystem has exactly the smaller size, and the kernel enforces it.
capacity_min = "1GiB"
capacity_max = "10GiB"

# The `volume` block of a job must have access_mode and attachment_mode of a capability here.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  mount_flags = ["noatime"] # from the list in docs/parameters.md; a job's own mount_options take precedence
}

# See docs/parameters.md. All are optional.
parameters {
  fsType = "ext4"
}

# A raw block device for a single task: nomad volume create disk.volume.hcl
id           = "disk"
name         = "disk"
type         = "csi"
plugin_id    = "mooring-n1"
capacity_min = "64MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "block-device"
}

# For a task that brings its own filesystem or none: no fsType is used.
parameters {
}

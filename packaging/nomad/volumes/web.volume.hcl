# A filesystem for one task at a time: nomad volume create web.volume.hcl
id        = "web"
name      = "web"
type      = "csi"
plugin_id = "mooring-n1" # the id in csi_plugin: of the node where the volume is to lie

# Bytes, or with a unit. The filesystem has exactly the smaller of the two; more than it is refused by the kernel.
capacity_min = "1GiB"
capacity_max = "10GiB"

# What a job may ask for in its `volume` block: access_mode and attachment_mode there have to be one of these.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  mount_flags = ["noatime"] # of the list in docs/parameters.md; a job's own mount_options go before these
}

# Of docs/parameters.md; all may be left out.
parameters {
  fsType = "ext4"
}

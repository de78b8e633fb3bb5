# A filesystem for several tasks of the node at once, some of them read-only: nomad volume create shared.volume.hcl
id           = "shared"
name         = "shared"
type         = "csi"
plugin_id    = "mooring-n1"
capacity_min = "1GiB"

# Nomad has no single-node mode for several writers. Mooring takes the multi-node ones for several tasks of one node.
capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

# For a group that only reads; it is staged a second time, read-only.
capability {
  access_mode     = "multi-node-reader-only"
  attachment_mode = "file-system"
}

# What is mounted below the volume later is passed on to and from the tasks that ask for it (propagation_mode in
# consumer.nomad.hcl). `inherit`, the default, does the same below Nomad's directories; `private` passes nothing on.
# A read-only target cannot be rshared: so a volume with readers leaves this out.
parameters {
  fsType = "ext4"
}

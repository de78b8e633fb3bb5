# A filesystem for several tasks of the node at a time, some of them read-only: nomad volume create shared.volume.hcl
id           = "shared"
name         = "shared"
type         = "csi"
plugin_id    = "mooring-n1"
capacity_min = "1GiB"

# Nomad has no single-node mode for several writers. Mooring uses the multi-node modes for several tasks of a node. A group
# that only reads has the same mode and read_only = true: it is staged a second time, and its mount is read-only.
capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}

# With rshared, later mounts below the volume pass to and from tasks that ask for it (propagation_mode in
# consumer.nomad.hcl). `inherit`, the default, does the same below Nomad's directories. `private` passes nothing on.
# A read-only target cannot be rshared, so omit this for a volume with readers.
parameters {
  fsType = "ext4"
}

# What a volume held at the instant of a snapshot:
#
#   nomad volume snapshot create web before     # the volume's id and a name for the snapshot; prints the snapshot's id
#   nomad volume create restored.volume.hcl
id        = "restored"
name      = "restored"
type      = "csi"
plugin_id = "mooring-n1" # the one that the snapshot is of

snapshot_id = "snap-0123456789abcdef0123456789abcdef" # as it was printed; instead of clone_id

# At least the source's: what is less is rounded up to it. A filesystem grows to it when it is first used.
capacity_min = "2GiB"

# As the source: of a raw device "block-device".
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

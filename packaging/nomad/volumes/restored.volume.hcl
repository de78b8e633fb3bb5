# A volume with the content of a snapshot:
#
#   nomad volume snapshot create web before     # the volume's id and a name for the snapshot; prints the snapshot's id
#   nomad volume create restored.volume.hcl
id        = "restored"
name      = "restored"
type      = "csi"
plugin_id = "mooring-n1" # the plugin of the snapshot

snapshot_id = "snap-0123456789abcdef0123456789abcdef" # as it was printed; instead of clone_id

# At least the source's size; smaller sizes are rounded up. The filesystem grows at its first use.
capacity_min = "2GiB"

# As the source: "block-device" for a raw device.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# A copy of a volume in its present state, in use or not: nomad volume create copy.volume.hcl
id        = "copy"
name      = "copy"
type      = "csi"
plugin_id = "mooring-n1" # the source's

clone_id = "vol-0123456789abcdef0123456789abcdef" # the source's External ID in `nomad volume status`; not its id in Nomad

capacity_min = "1GiB"

# As the source: "block-device" for a raw device.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

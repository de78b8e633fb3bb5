# A filesystem that moves to another node with its task, of the plugin in plugin-shared.nomad.hcl:
#
#   nomad volume create moving.volume.hcl
id           = "moving"
name         = "moving"
type         = "csi"
plugin_id    = "mooring-shared"
capacity_min = "1GiB"

# One node at a time uses it, in every mode. Without topology_request any node of the plugin may.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

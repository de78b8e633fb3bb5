# Memory: gone when the last task that uses it ends. For this the plugin has to have a pool of memory:
#
#   args = [… "--pool=name=memory,backend=tmpfs,size=2GiB"]   in plugin.nomad.hcl
#   nomad volume create scratch.volume.hcl
#
# (CSI's ephemeral inline volumes are for orchestrators that publish without staging; Nomad always stages.)
id           = "scratch"
name         = "scratch"
type         = "csi"
plugin_id    = "mooring-n1"
capacity_min = "64MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

parameters {
  pool = "memory" # the pool's name
}

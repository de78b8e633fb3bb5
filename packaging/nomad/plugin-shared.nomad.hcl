# Mooring on several nodes, with volumes on a filesystem that all of them mount (NFSv4, CephFS, GFS2).
#
#   nomad job run plugin-shared.nomad.hcl
#
# A volume moves to another node with its task. Every plugin knows every volume, so all nodes have one plugin id.

variable "image" {
  type    = string
  default = "mooring:0.1.0"
}

variable "state_dir" {
  type        = string
  default     = "/var/lib/mooring-shared"
  description = "on each host: the plugin's own records. It belongs to the image's user mooring, 65525"
}

variable "above_pool" {
  type        = string
  default     = "/srv/mooring"
  description = "on each host: a directory on its own disk, above the mount point of the shared filesystem. It is there without the mount"
}

variable "pool" {
  type        = string
  default     = "nfs/volumes"
  description = "below above_pool: the directory of the volumes, in the shared filesystem. It belongs to the user 65525"
}

job "mooring-shared" {
  type = "system"

  group "plugin" {
    # For a plugin that ends. Nomad ignores it if a container cannot be started, and after health_timeout.
    restart {
      attempts = 10
      interval = "5m"
      delay    = "5s"
      mode     = "delay"
    }

    task "plugin" {
      driver = "docker"

      # Longer than --stop-timeout below, and not longer than max_kill_timeout in client.hcl.
      kill_timeout = "30s"

      config {
        image      = var.image
        privileged = true # client.hcl: allow_privileged
        args = [
          "--node-id=${node.unique.name}", # Nomad sets it on each node: every node has an id of its own
          "--mount-root=/local/csi",       # the same as stage_publish_base_dir below
          "--stop-timeout=20",
          "--user=mooring", # a user of the image; only the mounter stays root
          "--state-dir=/var/lib/mooring",
          # All volumes are in this pool. The plugin waits until its filesystem is mounted.
          "--pool=name=default,backend=image,path=${var.above_pool}/${var.pool},shared=true",
        ]
        # client.hcl: volumes.enabled. With rslave the container sees a filesystem that is mounted later.
        volumes = ["${var.state_dir}:/var/lib/mooring", "${var.above_pool}:${var.above_pool}:rslave"]
      }

      csi_plugin {
        id                     = "mooring-shared" # the plugin_id of the volumes
        type                   = "monolith"
        mount_dir              = "/csi" # Nomad sets CSI_ENDPOINT to the csi.sock in it
        stage_publish_base_dir = "/local/csi"
        # A plugin that waits for its pool is not healthy. After this time Nomad ends the task and does not start it again.
        health_timeout = "8760h"
      }

      # mkfs and fsck use these resources. A check of a large filesystem after a crash needs most.
      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}

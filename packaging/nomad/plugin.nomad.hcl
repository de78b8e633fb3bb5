# Mooring on a node, with controller and node plugin in a single process (monolith).
#
#   nomad job run -var node=n1 plugin.nomad.hcl
#
# A volume lives on the node where it was created. Nomad asks any controller of a plugin id for any of its volumes. So each
# node has its own plugin id, mooring-NODE. Run this job once for each node.

variable "node" {
  type        = string
  description = "the node's name, as `nomad node status` shows it: at most 63 letters, digits, '-', '_' and '.'"
}

variable "image" {
  type    = string
  default = "mooring:0.1.0"
}

variable "state_dir" {
  type        = string
  default     = "/var/lib/mooring"
  description = "on the host: volumes and records. It belongs to the image's user mooring, 65525. Nothing else may be in it, and it outlives every version of this job. On a disk of its own set above_disk, too: Docker makes a missing directory on the node's own disk. Then this is not the disk's mount point, but a directory in it"
}

variable "above_disk" {
  type        = string
  default     = ""
  description = "only where state_dir is on a disk of its own: the directory on the host above the disk's mount point, say /srv/mooring for /srv/mooring/disk. It is there without the disk"
}

job "mooring" {
  id   = "mooring-${var.node}"
  type = "system"

  constraint {
    attribute = "${node.unique.name}"
    value     = var.node
  }

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
          "--node-id=${var.node}",   # each container has a new host name
          "--mount-root=/local/csi", # the same as stage_publish_base_dir below
          "--stop-timeout=20",
          "--user=mooring", # a user of the image; only the mounter stays root
          # Always below above_disk. If state_dir was forgotten, this path is missing, and the plugin waits.
          "--state-dir=${var.above_disk == "" ? "/var/lib/mooring" : "${var.above_disk}/${trimprefix(trimprefix(var.state_dir, "${var.above_disk}/"), "/")}"}",
          "--require-directories=${var.above_disk != ""}", # wait for the disk, and create nothing in its mount point
        ]
        # client.hcl: volumes.enabled. For a disk, bind the directory above its mount point, which always exists. With rslave
        # the container sees a disk that is mounted later.
        volumes = [var.above_disk == "" ? "${var.state_dir}:/var/lib/mooring" : "${var.above_disk}:${var.above_disk}:rslave"]
      }

      csi_plugin {
        id                     = "mooring-${var.node}" # the plugin_id of the volumes
        type                   = "monolith"
        mount_dir              = "/csi" # Nomad sets CSI_ENDPOINT to the csi.sock in it
        stage_publish_base_dir = "/local/csi"
        # A plugin that waits for its disk is not healthy. After this time Nomad ends the task and does not start it again.
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

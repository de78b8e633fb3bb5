# Mooring on one node, controller and node plugin in one process (monolith).
#
#   nomad job run -var node=n1 plugin.nomad.hcl
#
# A volume lives on the node it was made on, and Nomad asks any controller of a plugin id for any of its volumes: so each
# node has a plugin id of its own, mooring-NODE. Run this job once for each.

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
    # For a plugin that ends. Nomad asks this neither where a container cannot be started nor after health_timeout.
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
          "--node-id=${var.node}",   # a container's host name is a new one each time
          "--mount-root=/local/csi", # the same as stage_publish_base_dir below: it mounts nowhere else
          "--stop-timeout=20",
          "--user=mooring", # the image's; the mount helper alone stays root
          # Always below above_disk: the path of a forgotten state_dir is one that is missing, and the plugin waits.
          "--state-dir=${var.above_disk == "" ? "/var/lib/mooring" : "${var.above_disk}/${trimprefix(trimprefix(var.state_dir, "${var.above_disk}/"), "/")}"}",
          "--require-directories=${var.above_disk != ""}", # wait for the disk, and make nothing in its mount point
        ]
        # client.hcl: volumes.enabled. A disk comes with the directory above its mount point: that is always there, and a
        # disk that is mounted later is seen in the container (rslave).
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

      # mkfs and fsck run within this: a check of a large filesystem that was not unmounted takes most.
      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}

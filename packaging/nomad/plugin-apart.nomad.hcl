# Mooring on a node, with controller and node plugin as two tasks. They share a state directory through locks.
#
#   nomad job run -var node=n1 plugin-apart.nomad.hcl
#
# Use it to restart or limit the two separately. plugin.nomad.hcl is simpler. Both tasks must be on the node with the state
# directory.

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

  group "node" {
    restart {
      attempts = 10
      interval = "5m"
      delay    = "5s"
      mode     = "delay"
    }

    task "node" {
      driver       = "docker"
      kill_timeout = "30s" # longer than --stop-timeout

      config {
        image      = var.image
        privileged = true
        args = [
          "--mode=node",
          "--node-id=${var.node}",   # the same in both
          "--mount-root=/local/csi", # the same as stage_publish_base_dir
          "--stop-timeout=20",
          "--user=mooring",
          # Always below above_disk. If state_dir was forgotten, this path is missing, and the plugin waits.
          "--state-dir=${var.above_disk == "" ? "/var/lib/mooring" : "${var.above_disk}/${trimprefix(trimprefix(var.state_dir, "${var.above_disk}/"), "/")}"}",
          "--require-directories=${var.above_disk != ""}",
        ]
        # The same in both, as in plugin.nomad.hcl.
        volumes = [var.above_disk == "" ? "${var.state_dir}:/var/lib/mooring" : "${var.above_disk}:${var.above_disk}:rslave"]
      }

      csi_plugin {
        id                     = "mooring-${var.node}" # the same in both, and the plugin_id of the volumes
        type                   = "node"                # as --mode
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
        health_timeout         = "8760h" # as in plugin.nomad.hcl
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }

  group "controller" {
    restart {
      attempts = 10
      interval = "5m"
      delay    = "5s"
      mode     = "delay"
    }

    task "controller" {
      driver       = "docker"
      kill_timeout = "30s"

      # Privileged, too: it freezes filesystems in use for snapshots and grows loop devices in use. It must see mounts, so that
      # it deletes no mounted volume.
      config {
        image      = var.image
        privileged = true
        args = [
          "--mode=controller",
          "--node-id=${var.node}",
          "--mount-root=/local/csi",
          "--stop-timeout=20",
          "--user=mooring",
          "--state-dir=${var.above_disk == "" ? "/var/lib/mooring" : "${var.above_disk}/${trimprefix(trimprefix(var.state_dir, "${var.above_disk}/"), "/")}"}",
          "--require-directories=${var.above_disk != ""}",
        ]
        # The same in both, as in plugin.nomad.hcl.
        volumes = [var.above_disk == "" ? "${var.state_dir}:/var/lib/mooring" : "${var.above_disk}:${var.above_disk}:rslave"]
      }

      csi_plugin {
        id                     = "mooring-${var.node}"
        type                   = "controller"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
        health_timeout         = "8760h" # as in plugin.nomad.hcl
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}

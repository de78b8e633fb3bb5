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
  description = "on the host: volumes and records. Nothing else may be in it, and it outlives every version of this job. With a disk of its own not its mount point, but a directory in it"
}

job "mooring" {
  id   = "mooring-${var.node}"
  type = "system"

  constraint {
    attribute = "${node.unique.name}"
    value     = var.node
  }

  group "plugin" {
    # A plugin that is away holds up whoever starts or stops; so never give up.
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
        ]
        # With a disk for the volumes at /srv/disk: in place of this a directory in it, which is missing when the disk is. Of
        # `volumes` Docker would make it; with this it starts no plugin, which would know of no volume and fill the node's disk:
        #   mount {
        #     type   = "bind"
        #     source = "/srv/disk/mooring"
        #     target = "/var/lib/mooring"
        #   }
        volumes = ["${var.state_dir}:/var/lib/mooring"] # client.hcl: volumes.enabled. The right side is --state-dir
      }

      csi_plugin {
        id                     = "mooring-${var.node}" # the plugin_id of the volumes
        type                   = "monolith"
        mount_dir              = "/csi" # Nomad sets CSI_ENDPOINT to the csi.sock in it
        stage_publish_base_dir = "/local/csi"
        health_timeout         = "30s"
      }

      # mkfs and fsck run within this: a check of a large filesystem that was not unmounted takes most.
      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}

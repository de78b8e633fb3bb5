# The plugin without a container, as docs/nomad.md says, with a pool of memory for volumes/scratch.volume.hcl.

variable "program" {
  type = string
}

variable "state_dir" {
  type = string
}

variable "csi_dir" {
  type        = string
  description = "the client's data directory, and client/csi in it"
}

job "mooring" {
  id   = "mooring-n1"
  type = "system"

  group "plugin" {
    task "plugin" {
      driver       = "raw_exec"
      kill_timeout = "30s"

      config {
        command = var.program
        args = [
          "--node-id=n1",
          "--mount-root=${var.csi_dir}/monolith/mooring-n1",
          "--stop-timeout=20",
          "--state-dir=${var.state_dir}",
          "--pool=name=memory,backend=tmpfs,size=1GiB",
        ]
      }

      csi_plugin {
        id                     = "mooring-n1"
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "${var.csi_dir}/monolith/mooring-n1"
      }
    }
  }
}

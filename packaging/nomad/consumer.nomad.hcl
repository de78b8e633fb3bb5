# Tasks that use the volumes in volumes/, each in one of the ways there are.
#
#   nomad job run consumer.nomad.hcl
#
# In each group: source is the volume's id, access_mode and attachment_mode are one of its capabilities. Nomad places the
# group on the volume's node.

job "consumer" {
  # One task alone, which has a volume and passes nothing on: propagation_mode private, the default.
  group "private" {
    volume "data" {
      type            = "csi"
      source          = "web"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "server" {
      driver = "docker"

      config {
        image   = "busybox:stable"
        command = "sleep"
        args    = ["infinity"]
      }

      volume_mount {
        volume      = "data"
        destination = "/srv"
      }
    }
  }

  # Sees what the host mounts below this allocation's target while the task runs. Each allocation has a target of its own:
  # what the task of the group `bidirectional` mounts is at that group's target, and is not seen here.
  group "host-to-task" {
    volume "data" {
      type            = "csi"
      source          = "shared"
      access_mode     = "multi-node-multi-writer"
      attachment_mode = "file-system"
    }

    task "server" {
      driver = "docker"

      config {
        image   = "busybox:stable"
        command = "sleep"
        args    = ["infinity"]
      }

      volume_mount {
        volume           = "data"
        destination      = "/srv"
        propagation_mode = "host-to-task"
      }
    }
  }

  # The host also sees what the task mounts, below the target of this allocation. Mounting takes a privileged task. Mounts
  # that it leaves below the volume are taken down when the group ends.
  group "bidirectional" {
    volume "data" {
      type            = "csi"
      source          = "shared"
      access_mode     = "multi-node-multi-writer"
      attachment_mode = "file-system"
    }

    task "server" {
      driver = "docker"

      config {
        image      = "busybox:stable"
        command    = "sleep"
        args       = ["infinity"]
        privileged = true # client.hcl: allow_privileged
      }

      volume_mount {
        volume           = "data"
        destination      = "/srv"
        propagation_mode = "bidirectional"
      }
    }
  }

  # Reads what the others write: read_only, in a mode that the volume has for it.
  group "reader" {
    volume "data" {
      type            = "csi"
      source          = "shared"
      read_only       = true
      access_mode     = "multi-node-reader-only"
      attachment_mode = "file-system"
    }

    task "server" {
      driver = "docker"

      config {
        image   = "busybox:stable"
        command = "sleep"
        args    = ["infinity"]
      }

      volume_mount {
        volume      = "data"
        destination = "/srv"
        read_only   = true
      }
    }
  }

  # A device node at the destination. Docker lets an unprivileged task open no device: so it is privileged.
  group "block" {
    volume "data" {
      type            = "csi"
      source          = "disk"
      access_mode     = "single-node-writer"
      attachment_mode = "block-device"
    }

    task "server" {
      driver = "docker"

      config {
        image      = "busybox:stable"
        command    = "sleep"
        args       = ["infinity"]
        privileged = true
      }

      volume_mount {
        volume      = "data"
        destination = "/dev/disk"
      }
    }
  }
}

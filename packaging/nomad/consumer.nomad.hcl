# Tasks that use the volumes in volumes/, each in a different way.
#
#   nomad job run consumer.nomad.hcl
#
# In each group, source is the volume's id. access_mode and attachment_mode are a capability of the volume. Nomad places
# the group on the volume's node.

job "consumer" {
  # A single task with a volume. Mounts do not pass: propagation_mode private, the default.
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

  # The task sees mounts of the host below this allocation's target. Each allocation has its own target, so mounts of the
  # task in the group `bidirectional` are not seen here.
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

  # The host also sees mounts of the task, below the target of this allocation. Only a privileged task can mount. Mounts that
  # it leaves below the volume are unmounted when the group ends.
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

  # A reader of the other groups' data: read_only, in the mode of the writers. Nomad gives a volume the mode of its first
  # claim, so all groups of a volume name the same one.
  group "reader" {
    volume "data" {
      type            = "csi"
      source          = "shared"
      read_only       = true
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
        volume      = "data"
        destination = "/srv"
        read_only   = true
      }
    }
  }

  # A device node at the destination. The task is privileged, because Docker lets only privileged tasks open devices.
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

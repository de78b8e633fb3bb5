# A task with any volume that the test names, to read what is in it.

variable "volume" {
  type = string
}

job "reader" {
  group "reader" {
    volume "data" {
      type            = "csi"
      source          = var.volume
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "reader" {
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
}

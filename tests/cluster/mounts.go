package main

import (
	"os"
	"strings"
	"syscall"
)

// mountsBelow lists the mount points at and below a path, oldest first. The paths of this test have no spaces.
func mountsBelow(path string) []string {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var found []string
	for _, line := range strings.Split(string(table), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 4 && (fields[4] == path || strings.HasPrefix(fields[4], path+"/")) {
			found = append(found, fields[4])
		}
	}
	return found
}

// unmountBelow is what the death of a host does to its mounts.
func unmountBelow(path string) {
	found := mountsBelow(path)
	for i := len(found) - 1; i >= 0; i-- {
		_ = syscall.Unmount(found[i], syscall.MNT_DETACH)
	}
}

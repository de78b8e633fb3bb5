package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
)

// printClasses prints the requests of claims and pods: each class of volumes and of attributes, and the inline
// volumes of the examples, as arguments of `mooring csi create`.
func printClasses(directory string) {
	objects, err := build(filepath.Join(directory, "one-node"))
	var examples []kubernetesObject
	if err == nil {
		examples, err = build(filepath.Join(directory, "examples"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, class := range all[*storage.StorageClass](objects) {
		size := "--size 320MiB" // enough for xfs
		if class.Parameters["csi.storage.k8s.io/fstype"] == "" {
			size += " --block"
		}
		printClass(class.Name, size, "--param", class.Parameters)
	}
	for _, class := range all[*storage.VolumeAttributesClass](objects) {
		printClass(class.Name, "--size 320MiB", "--mutable-param", class.Parameters)
	}
	for _, pod := range all[*core.Pod](examples) {
		for _, volume := range pod.Spec.Volumes {
			if volume.CSI != nil {
				attributes := maps.Clone(volume.CSI.VolumeAttributes)
				delete(attributes, "size")
				size := "--size " + volume.CSI.VolumeAttributes["size"]
				printClass("inline-"+volume.Name, size, "--param", attributes)
			}
		}
	}
}

func printClass(name, size, flag string, parameters map[string]string) {
	line := []string{name, size}
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		line = append(line, flag, key+"="+parameters[key])
	}
	fmt.Println(strings.Join(line, " "))
}

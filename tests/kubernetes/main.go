// Checks packaging/kubernetes without a cluster. It builds each kustomization as kubectl does, decodes each
// object strictly into Kubernetes' own types, and compares values that must match: among the objects, with the
// plugin's command line, and with the needs of kubelet and the sidecars.
//
//	check-manifests packaging/kubernetes mooring-plugin mooring
//	check-manifests --classes packaging/kubernetes   # a class a line, as arguments of `mooring csi create`
//	check-manifests --command packaging/kubernetes/default   # how the plugin is started: lines "env NAME=VALUE", "arg VALUE", "volume NAME PATH TYPE"
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "--classes":
		printClasses(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "--command":
		printCommand(os.Args[2])
	case len(os.Args) == 4:
		checkAll()
	default:
		fmt.Fprintln(os.Stderr, "usage: check-manifests DIRECTORY MOORING-PLUGIN MOORING, or --classes|--command DIRECTORY")
		os.Exit(2)
	}
}

func checkAll() {
	directory := os.Args[1]
	plugin, err := askPlugin(os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	faults := 0
	report := func(where string) func(string, ...any) {
		return func(format string, values ...any) {
			faults++
			fmt.Printf("FAULT  %s: %s\n", where, fmt.Sprintf(format, values...))
		}
	}

	var examples []kubernetesObject
	if examples, err = build(filepath.Join(directory, "examples")); err != nil {
		report("examples")("%v", err)
	}
	checkOne := func(name string, objects []kubernetesObject, err error) *cluster {
		c := &cluster{objects: objects, plugin: plugin, fault: report(name)}
		if err != nil {
			c.fault("%v", err)
			return c
		}
		check(c)
		fmt.Printf("%s: %d objects\n", name, len(objects))
		return c
	}
	for _, name := range []string{"default", "one-node", "classic", "snapshots", "group-snapshots", "shared"} {
		objects, err := build(filepath.Join(directory, name))
		checkNeeds(checkOne(name, objects, err), strings.HasSuffix(name, "snapshots"), name == "group-snapshots")
	}
	// It has every object that the examples name.
	objects, err := buildWithAll(directory)
	everything := checkOne("all components", objects, err)
	checkExamples(&cluster{objects: everything.objects, plugin: plugin, fault: report("examples")}, examples)
	fmt.Printf("examples: %d objects\n", len(examples))
	if faults > 0 {
		os.Exit(1)
	}
}

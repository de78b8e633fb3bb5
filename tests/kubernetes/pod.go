package main

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// The pod of a DaemonSet, and its paths on the host.
type podFacts struct {
	spec   *core.PodSpec
	plugin *core.Container
	driver string
}

func podOf(c *cluster, set *apps.DaemonSet) *podFacts {
	pod := &podFacts{spec: &set.Spec.Template.Spec, driver: c.plugin.driver}
	for _, container := range pod.spec.Containers {
		for _, mount := range container.VolumeMounts {
			if pod.volume(mount.Name) == nil {
				c.fault("%s: no volume %s", container.Name, mount.Name)
			}
			privileged := container.SecurityContext != nil && container.SecurityContext.Privileged != nil &&
				*container.SecurityContext.Privileged
			if mount.MountPropagation != nil && *mount.MountPropagation == core.MountPropagationBidirectional && !privileged {
				c.fault("%s: Bidirectional is for privileged containers alone", container.Name)
			}
		}
	}
	if pod.plugin = pod.container("plugin"); pod.plugin == nil {
		return pod
	}
	if name := flagOf(pod.arguments(c, pod.plugin), "--driver-name"); name != "" {
		pod.driver = name
	}
	return pod
}

func (pod *podFacts) container(name string) *core.Container {
	for i := range pod.spec.Containers {
		if pod.spec.Containers[i].Name == name {
			return &pod.spec.Containers[i]
		}
	}
	return nil
}

func (pod *podFacts) volume(name string) *core.Volume {
	for i := range pod.spec.Volumes {
		if pod.spec.Volumes[i].Name == name {
			return &pod.spec.Volumes[i]
		}
	}
	return nil
}

// env returns a variable's value, or the name of the field that Kubernetes fills in.
func (pod *podFacts) env(container *core.Container, name string) string {
	for _, variable := range container.Env {
		if variable.Name != name {
			continue
		}
		if from := variable.ValueFrom; from != nil && from.FieldRef != nil {
			return path.Base(from.FieldRef.FieldPath)
		}
		return variable.Value
	}
	return ""
}

func (pod *podFacts) environment(container *core.Container) (list []string) {
	for _, variable := range container.Env {
		list = append(list, variable.Name+"="+pod.env(container, variable.Name))
	}
	return list
}

var reference = regexp.MustCompile(`\$\(([A-Za-z_]+)\)`)

// arguments returns the arguments with their variables replaced. Kubernetes leaves unknown variables unchanged.
func (pod *podFacts) arguments(c *cluster, container *core.Container) []string {
	var arguments []string
	if container == nil {
		return nil
	}
	for _, argument := range container.Args {
		arguments = append(arguments, reference.ReplaceAllStringFunc(argument, func(text string) string {
			value := pod.env(container, reference.FindStringSubmatch(text)[1])
			if value == "" {
				c.fault("%s: %s in %s is no variable of the container", container.Name, text, argument)
			}
			return value
		}))
	}
	return arguments
}

// printCommand prints the plugin's variables and arguments in a kustomization, and the directories of the host.
func printCommand(directory string) {
	objects, err := build(directory)
	sets := all[*apps.DaemonSet](objects)
	if err != nil || len(sets) != 1 {
		fmt.Fprintln(os.Stderr, len(sets), "DaemonSets:", err)
		os.Exit(1)
	}
	fault := func(format string, values ...any) { fmt.Fprintf(os.Stderr, format+"\n", values...) }
	c := &cluster{objects: objects, plugin: &pluginFacts{}, fault: fault}
	pod := podOf(c, sets[0])
	for _, variable := range pod.environment(pod.plugin) {
		fmt.Println("env", variable)
	}
	for _, argument := range pod.arguments(c, pod.plugin) {
		fmt.Println("arg", argument)
	}
	for _, volume := range pod.spec.Volumes {
		fmt.Println("volume", volume.Name, volume.HostPath.Path, *volume.HostPath.Type)
	}
}

// mountOf returns the volume mount of a path.
func (pod *podFacts) mountOf(container *core.Container, at string) *core.VolumeMount {
	var longest *core.VolumeMount
	for i := range container.VolumeMounts {
		mount := &container.VolumeMounts[i]
		below := at == mount.MountPath || strings.HasPrefix(at, strings.TrimSuffix(mount.MountPath, "/")+"/")
		if below && (longest == nil || len(mount.MountPath) > len(longest.MountPath)) {
			longest = mount
		}
	}
	return longest
}

// onHost returns the path on the host, or "" for a path of the container's own filesystem.
func (pod *podFacts) onHost(container *core.Container, at string) string {
	mount := pod.mountOf(container, at)
	if mount == nil {
		return ""
	}
	volume := pod.volume(mount.Name)
	if volume == nil || volume.HostPath == nil {
		return ""
	}
	return path.Join(volume.HostPath.Path, strings.TrimPrefix(at, mount.MountPath))
}

// flagsOf returns the values of `--flag=value`; flagOf returns the last, or "".
func flagsOf(arguments []string, flag string) []string {
	var values []string
	for _, argument := range arguments {
		if value, found := strings.CutPrefix(argument, flag+"="); found {
			values = append(values, value)
		}
	}
	return values
}

func flagOf(arguments []string, flag string) string {
	values := flagsOf(arguments, flag)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

package main

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	groupsnapshot "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1beta2"
	snapshot "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	storage "k8s.io/api/storage/v1"
)

const kubeletRoot = "/var/lib/kubelet"

// An installation: the objects of a kustomization.
type cluster struct {
	objects []kubernetesObject
	plugin  *pluginFacts
	fault   func(string, ...any)
}

func check(c *cluster) {
	sets := all[*apps.DaemonSet](c.objects)
	if len(sets) != 1 {
		c.fault("%d DaemonSets, not one", len(sets))
		return
	}
	pod := podOf(c, sets[0])
	if pod.plugin == nil {
		c.fault("the DaemonSet has no container 'plugin'")
		return
	}
	checkRollout(c, sets[0])
	checkPlugin(c, pod)
	checkSidecars(c, pod)
	checkDriver(c, pod)
	checkClasses(c, pod)
	checkSharedPool(c, pod)
	checkRoles(c, sets[0])
	checkRights(c, sets[0])
}

// A cluster may lack the types of snapshot classes. Then the apply fails half way. So they are only in the folders for
// snapshots.
func checkNeeds(c *cluster, snapshots, groups bool) {
	if found := len(all[*snapshot.VolumeSnapshotClass](c.objects)) > 0; found != snapshots {
		c.fault("needs the snapshot CRDs: %v, not %v", found, snapshots)
	}
	if found := len(all[*groupsnapshot.VolumeGroupSnapshotClass](c.objects)) > 0; found != groups {
		c.fault("needs the group snapshot CRDs: %v, not %v", found, groups)
	}
}

// Two plugins on a node would share one socket and one state directory. A stop needs enough time.
func checkRollout(c *cluster, set *apps.DaemonSet) {
	for key, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[key] != value {
			c.fault("the selector's %s=%s is none of the pod's labels", key, value)
		}
	}
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxSurge == nil || rolling.MaxSurge.IntValue() != 0 {
		c.fault("maxSurge has to be 0")
	}
	patience, _ := strconv.ParseInt(c.plugin.stopTimeout, 10, 64)
	if grace := set.Spec.Template.Spec.TerminationGracePeriodSeconds; grace == nil || *grace <= patience {
		c.fault("terminationGracePeriodSeconds has to be more than the plugin's --stop-timeout, %d", patience)
	}
}

func checkPlugin(c *cluster, pod *podFacts) {
	container := pod.plugin
	if container.Image != "mooring:"+c.plugin.version {
		c.fault("the plugin's image is %s, and its version %s", container.Image, c.plugin.version)
	}
	arguments := pod.arguments(c, container)
	if err := c.plugin.takes(arguments, pod.environment(container)); err != nil {
		c.fault("%v", err)
	}
	for _, variable := range container.Env {
		if !c.plugin.variables[variable.Name] && !strings.Contains(strings.Join(container.Args, " "), "$("+variable.Name+")") {
			c.fault("the plugin reads no variable %s", variable.Name)
		}
	}
	checkProbes(c, pod)
	checkMetrics(c, pod)
	checkPluginPaths(c, pod, arguments)
}

// The liveness probe may ask only whether the plugin answers. A restart does not supply what the plugin lacks.
func checkProbes(c *cluster, pod *podFacts) {
	plugin := pod.plugin
	alive, ready := []string{"mooring", "csi", "probe", "--liveness"}, []string{"mooring", "csi", "probe"}
	check := func(name string, probe *core.Probe, want []string) {
		if probe == nil || probe.Exec == nil || !slices.Equal(probe.Exec.Command, want) {
			c.fault("the plugin's %s probe is not %q", name, want)
		} else if err := c.plugin.hasCommand(want[1:]); err != nil {
			c.fault("%v", err)
		}
	}
	check("liveness", plugin.LivenessProbe, alive)
	check("readiness", plugin.ReadinessProbe, ready)
	if plugin.StartupProbe != nil {
		check("startup", plugin.StartupProbe, alive)
	}
	if pod.env(plugin, "CSI_ENDPOINT") == "" {
		c.fault("the probes of the plugin need CSI_ENDPOINT")
	}
}

// If the plugin serves metrics, the container has a port, which the PodMonitor names.
func checkMetrics(c *cluster, pod *podFacts) {
	listen := pod.env(pod.plugin, "MOORING_METRICS_LISTEN")
	told := ""
	for _, port := range pod.plugin.Ports {
		if port.Name == "metrics" {
			told = fmt.Sprintf(":%d", port.ContainerPort)
		}
	}
	if listen != told {
		c.fault("MOORING_METRICS_LISTEN is %q, and the port 'metrics' %q", listen, told)
	}
}

// A path must mean the same for kubelet, the plugin and the sidecars.
func checkPluginPaths(c *cluster, pod *podFacts, arguments []string) {
	socket := strings.TrimPrefix(flagOf(arguments, "--endpoint"), "unix://")
	want := kubeletRoot + "/plugins/" + pod.driver + "/csi.sock"
	if host := pod.onHost(pod.plugin, socket); host != want {
		c.fault("the plugin's socket %s is %s on the host, not %s", socket, host, want)
	}
	for _, root := range flagsOf(arguments, "--mount-root") {
		if host := pod.onHost(pod.plugin, root); host != root || !strings.HasPrefix(root, kubeletRoot+"/") {
			c.fault("--mount-root %s is %q on the host: kubelet asks for paths of the host below %s", root, host, kubeletRoot)
		}
		if mount := pod.mountOf(pod.plugin, root); mount == nil || mount.MountPropagation == nil ||
			*mount.MountPropagation != core.MountPropagationBidirectional {
			c.fault("--mount-root %s is not mounted with Bidirectional propagation", root)
		}
	}
	for _, below := range []string{"/plugins/kubernetes.io/csi", "/pods"} {
		if !slices.Contains(flagsOf(arguments, "--mount-root"), kubeletRoot+below) {
			c.fault("no --mount-root %s%s", kubeletRoot, below)
		}
	}
	if state := flagOf(arguments, "--state-dir"); pod.onHost(pod.plugin, state) == "" {
		c.fault("--state-dir %s is not on the host", state)
	}
	if pod.onHost(pod.plugin, "/dev") != "/dev" {
		c.fault("/dev is not the host's")
	}
	checkRegistration(c, pod, arguments, want)
}

// Either the plugin registers itself, or a registrar does it.
func checkRegistration(c *cluster, pod *podFacts, arguments []string, socket string) {
	directory := pod.env(pod.plugin, "MOORING_KUBELET_REGISTRATION_DIR")
	registrar := pod.container("registrar")
	if (directory != "") == (registrar != nil) {
		c.fault("the plugin is registered by %d, not by one", map[bool]int{true: 2, false: 0}[registrar != nil])
		return
	}
	told := ""
	if registrar != nil {
		directory = "/registration"
		told = flagOf(pod.arguments(c, registrar), "--kubelet-registration-path")
	} else if told = flagOf(arguments, "--kubelet-endpoint"); told == "" {
		told = strings.TrimPrefix(flagOf(arguments, "--endpoint"), "unix://")
	}
	container := pod.plugin
	if registrar != nil {
		container = registrar
	}
	if host := pod.onHost(container, directory); host != kubeletRoot+"/plugins_registry" {
		c.fault("the registration directory is %q on the host", host)
	}
	if told != socket {
		c.fault("kubelet is told %s, and the socket is %s on the host", told, socket)
	}
}

func checkSidecars(c *cluster, pod *podFacts) {
	if pod.container("provisioner") == nil {
		c.fault("no provisioner")
	}
	for i := range pod.spec.Containers {
		container := &pod.spec.Containers[i]
		if container.Name == "plugin" {
			continue
		}
		arguments := pod.arguments(c, container)
		checkFlags(c, container, arguments)
		want := kubeletRoot + "/plugins/" + pod.driver + "/csi.sock"
		if host := pod.onHost(container, flagOf(arguments, "--csi-address")); host != want {
			c.fault("%s: --csi-address is %q on the host, not %s", container.Name, host, want)
		}
		needs := map[string][]string{"--node-deployment": {"NODE_NAME"}, "--enable-capacity": {"NAMESPACE", "POD_NAME"}}
		for flag, variables := range needs {
			for _, variable := range variables {
				if slices.Contains(arguments, flag) && pod.env(container, variable) == "" {
					c.fault("%s: %s needs %s", container.Name, flag, variable)
				}
			}
		}
		checkNodes(c, container, arguments)
	}
}

// A sidecar serves its own node alone (--node-deployment), or the leader serves all nodes. The leading resizer leaves the
// growing to kubelet and the node. The leading attacher asks for volumes that every plugin knows. csi-snapshotter finds
// group snapshots only without --node-deployment, and its leader must be on the only node with volumes.
func checkNodes(c *cluster, container *core.Container, arguments []string) {
	groups := len(all[*groupsnapshot.VolumeGroupSnapshotClass](c.objects)) > 0
	perNode := container.Name == "provisioner" || container.Name == "snapshotter" && !groups
	if perNode != slices.Contains(arguments, "--node-deployment") {
		c.fault("%s: --node-deployment: %v, and not %v", container.Name, !perNode, perNode)
	}
	if !perNode && container.Name != "registrar" && !slices.Contains(arguments, "--leader-election") {
		c.fault("the %s needs --leader-election", container.Name)
	}
	if off := slices.Contains(arguments, "--feature-gates=CSIVolumeGroupSnapshot=false"); container.Name == "snapshotter" && off == groups {
		c.fault("the snapshotter looks for group snapshots: %v, and there is a class of them: %v", !off, groups)
	}
}

func asksForMountGroup(argument string) bool {
	name, value, _ := strings.Cut(argument, "=")
	return name == "--volume-mount-group" && value != "false"
}

func checkDriver(c *cluster, pod *podFacts) {
	drivers := all[*storage.CSIDriver](c.objects)
	if len(drivers) != 1 || drivers[0].Name != pod.driver {
		c.fault("not one CSIDriver %s", pod.driver)
		return
	}
	spec := drivers[0].Spec
	attaches := pod.container("attacher") != nil
	if spec.AttachRequired == nil || *spec.AttachRequired != attaches {
		c.fault("K22: attachRequired is not %v, and there is an attacher: %v", attaches, attaches)
	}
	byPlugin := pod.env(pod.plugin, "MOORING_VOLUME_MOUNT_GROUP") != "" ||
		slices.ContainsFunc(pod.arguments(c, pod.plugin), asksForMountGroup)
	if byPlugin || spec.FSGroupPolicy == nil || *spec.FSGroupPolicy != storage.FileFSGroupPolicy {
		c.fault("K24: fsGroupPolicy is not File, or the plugin keeps kubelet from applying it")
	}
	inline := slices.Contains(spec.VolumeLifecycleModes, storage.VolumeLifecycleEphemeral)
	if inline && (spec.PodInfoOnMount == nil || !*spec.PodInfoOnMount) {
		c.fault("K11: inline volumes need podInfoOnMount")
	}
	told := slices.Contains(pod.arguments(c, pod.container("provisioner")), "--enable-capacity")
	if counted := spec.StorageCapacity != nil && *spec.StorageCapacity; counted != told {
		c.fault("storageCapacity is %v, and the provisioner's --enable-capacity %v", counted, told)
	}
}

// The leading attacher asks the plugin of its own node for volumes of all nodes. So all volumes are in a shared pool.
func checkSharedPool(c *cluster, pod *podFacts) {
	keys := map[string]string{}
	for _, pair := range strings.Split(pod.env(pod.plugin, "MOORING_POOL"), ",") {
		key, value, _ := strings.Cut(pair, "=")
		keys[key] = value
	}
	shared := keys["shared"] == "true" && keys["name"] == "default"
	if attaches := pod.container("attacher") != nil; attaches != shared {
		c.fault("the pool 'default' is shared: %v, and there is an attacher: %v", shared, attaches)
	}
	if !shared {
		return
	}
	mount := pod.mountOf(pod.plugin, keys["path"])
	if mount == nil || pod.onHost(pod.plugin, keys["path"]) != keys["path"] {
		c.fault("the pool %q is not the host's directory", keys["path"])
		return
	}
	if kind := pod.volume(mount.Name).HostPath.Type; kind == nil || *kind != core.HostPathDirectory {
		c.fault("the pool %q would be made on a node that has not mounted it", keys["path"])
	}
	for _, driver := range all[*storage.CSIDriver](c.objects) {
		if slices.Contains(driver.Spec.VolumeLifecycleModes, storage.VolumeLifecycleEphemeral) {
			c.fault("a shared pool refuses inline volumes")
		}
	}
}

func checkClasses(c *cluster, pod *podFacts) {
	grows := pod.container("resizer") != nil
	if told := pod.env(pod.plugin, "MOORING_GROW_ON_NODE") == "true"; told != grows {
		c.fault("MOORING_GROW_ON_NODE is %v, and there is a resizer: %v", told, grows)
	}
	classes := all[*storage.StorageClass](c.objects)
	if len(classes) == 0 {
		c.fault("no StorageClass")
	}
	for _, class := range classes {
		if class.Provisioner != pod.driver {
			c.fault("StorageClass %s is another driver's", class.Name)
		}
		if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storage.VolumeBindingWaitForFirstConsumer {
			c.fault("StorageClass %s: a volume lies where it is made: WaitForFirstConsumer", class.Name)
		}
		if offered := class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion; offered != grows {
			c.fault("StorageClass %s: allowVolumeExpansion is %v, and there is a resizer: %v", class.Name, offered, grows)
		}
	}
	for _, class := range all[*snapshot.VolumeSnapshotClass](c.objects) {
		if class.Driver != pod.driver {
			c.fault("VolumeSnapshotClass %s is another driver's", class.Name)
		}
	}
	for _, class := range all[*groupsnapshot.VolumeGroupSnapshotClass](c.objects) {
		if class.Driver != pod.driver {
			c.fault("VolumeGroupSnapshotClass %s is another driver's", class.Name)
		}
	}
	for _, class := range all[*storage.VolumeAttributesClass](c.objects) {
		if class.DriverName != pod.driver {
			c.fault("VolumeAttributesClass %s is another driver's", class.Name)
		}
	}
}

// Every binding binds an existing role to the account of the pod.
func checkRoles(c *cluster, set *apps.DaemonSet) {
	account := set.Spec.Template.Spec.ServiceAccountName
	names := func(objects []kubernetesObject) (list []string) {
		for _, object := range objects {
			list = append(list, object.GetNamespace()+"/"+object.GetName())
		}
		return list
	}
	if !slices.Contains(names(asObjects(all[*core.ServiceAccount](c.objects))), set.Namespace+"/"+account) {
		c.fault("the pod's account %s/%s is not there", set.Namespace, account)
	}
	namespaces := all[*core.Namespace](c.objects)
	if len(namespaces) != 1 || namespaces[0].Name != set.Namespace {
		c.fault("the pod's namespace %s is not there", set.Namespace)
	}
	clusterRoles := names(asObjects(all[*rbac.ClusterRole](c.objects)))
	roles := names(asObjects(all[*rbac.Role](c.objects)))
	binds := func(name, role string, known []string, subjects []rbac.Subject) {
		if !slices.Contains(known, role) {
			c.fault("%s binds %s, which is not there", name, role)
		}
		if len(subjects) != 1 || subjects[0].Namespace != set.Namespace || subjects[0].Name != account {
			c.fault("%s is not for the pod's account", name)
		}
	}
	for _, binding := range all[*rbac.ClusterRoleBinding](c.objects) {
		binds(binding.Name, "/"+binding.RoleRef.Name, clusterRoles, binding.Subjects)
	}
	for _, binding := range all[*rbac.RoleBinding](c.objects) {
		binds(binding.Name, binding.Namespace+"/"+binding.RoleRef.Name, roles, binding.Subjects)
	}
}

func asObjects[T kubernetesObject](list []T) (objects []kubernetesObject) {
	for _, one := range list {
		objects = append(objects, one)
	}
	return objects
}

// The examples name existing classes, and the driver's name.
func checkExamples(c *cluster, examples []kubernetesObject) {
	has := func(kind, name string) {
		for _, object := range c.objects {
			if object.GetObjectKind().GroupVersionKind().Kind == kind && object.GetName() == name {
				return
			}
		}
		c.fault("there is no %s %s", kind, name)
	}
	claims := map[string]bool{}
	for _, claim := range all[*core.PersistentVolumeClaim](examples) {
		claims[claim.Name] = true
		has("StorageClass", *claim.Spec.StorageClassName)
		if claim.Spec.VolumeAttributesClassName != nil {
			has("VolumeAttributesClass", *claim.Spec.VolumeAttributesClassName)
		}
	}
	for _, taken := range all[*snapshot.VolumeSnapshot](examples) {
		has("VolumeSnapshotClass", *taken.Spec.VolumeSnapshotClassName)
		if !claims[*taken.Spec.Source.PersistentVolumeClaimName] {
			c.fault("VolumeSnapshot %s is of no claim of the examples", taken.Name)
		}
	}
	for _, pod := range all[*core.Pod](examples) {
		checkExamplePod(c, pod, claims, has)
	}
}

func checkExamplePod(c *cluster, pod *core.Pod, claims map[string]bool, has func(kind, name string)) {
	names := map[string]bool{}
	for _, volume := range pod.Spec.Volumes {
		names[volume.Name] = true
		if volume.CSI != nil {
			has("CSIDriver", volume.CSI.Driver)
		}
		if claim := volume.PersistentVolumeClaim; claim != nil && !claims[claim.ClaimName] {
			c.fault("pod %s: no claim %s", pod.Name, claim.ClaimName)
		}
	}
	for _, container := range pod.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			if !names[mount.Name] {
				c.fault("pod %s: no volume %s", pod.Name, mount.Name)
			}
		}
		for _, device := range container.VolumeDevices {
			if !names[device.Name] {
				c.fault("pod %s: no volume %s", pod.Name, path.Base(device.Name))
			}
		}
	}
}

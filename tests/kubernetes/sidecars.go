package main

import (
	"fmt"
	"slices"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
)

// The useful flags of Kubernetes' sidecars. A sidecar does not start with an unknown flag.
var sidecarFlags = map[string]string{
	"provisioner": "csi-address default-fstype enable-capacity capacity-ownerref-level capacity-poll-interval " +
		"capacity-threads extra-create-metadata feature-gates http-endpoint immediate-topology leader-election " +
		"node-deployment retry-interval-max retry-interval-start strict-topology timeout v volume-name-prefix worker-threads",
	"snapshotter": "csi-address extra-create-metadata feature-gates http-endpoint leader-election node-deployment " +
		"retry-interval-max retry-interval-start snapshot-name-prefix timeout v worker-threads",
	"resizer": "csi-address feature-gates handle-volume-inuse-error http-endpoint leader-election " +
		"retry-interval-max retry-interval-start timeout v workers",
	"attacher": "csi-address default-fstype http-endpoint leader-election reconcile-sync " +
		"retry-interval-max retry-interval-start timeout v worker-threads",
	"registrar": "csi-address http-endpoint kubelet-registration-path plugin-registration-path timeout v",
}

// The calls of each sidecar to the API server: lines "GROUP/RESOURCE: VERBS", with "" for the core group.
var sidecarNeeds = map[string]string{
	"provisioner": `/persistentvolumes: get list watch create patch delete
		/persistentvolumeclaims: get list watch update
		/events: list watch create update patch
		/nodes: get list watch
		storage.k8s.io/storageclasses: get list watch
		storage.k8s.io/csinodes: get list watch
		storage.k8s.io/volumeattachments: get list watch`,
	"provisioner --enable-capacity": `/pods: get
		storage.k8s.io/csistoragecapacities: get list watch create update patch delete`,
	"provisioner with snapshotter": `snapshot.storage.k8s.io/volumesnapshots: get list watch update
		snapshot.storage.k8s.io/volumesnapshotcontents: get list`,
	"snapshotter": `/events: list watch create update patch
		snapshot.storage.k8s.io/volumesnapshotclasses: get list watch
		snapshot.storage.k8s.io/volumesnapshotcontents: get list watch update patch
		snapshot.storage.k8s.io/volumesnapshotcontents/status: update patch`,
	"snapshotter --leader-election": `coordination.k8s.io/leases: get watch list delete update create
		groupsnapshot.storage.k8s.io/volumegroupsnapshotclasses: get list watch
		groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents: get list watch update patch
		groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents/status: update patch`,
	"resizer": `/persistentvolumes: get list watch patch
		/persistentvolumeclaims: get list watch
		/persistentvolumeclaims/status: patch
		/pods: get list watch
		/events: list watch create update patch`,
	"resizer --leader-election": `coordination.k8s.io/leases: get watch list delete update create`,
	"attacher": `/persistentvolumes: get list watch patch
		storage.k8s.io/csinodes: get list watch
		storage.k8s.io/volumeattachments: get list watch patch
		storage.k8s.io/volumeattachments/status: patch`,
	"attacher --leader-election": `coordination.k8s.io/leases: get watch list delete update create`,
}

func checkFlags(c *cluster, container *core.Container, arguments []string) {
	known, found := sidecarFlags[container.Name]
	if !found {
		c.fault("%s is no sidecar that is known here", container.Name)
		return
	}
	for _, argument := range arguments {
		name, _, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if !slices.Contains(strings.Fields(known), name) {
			c.fault("%s has no flag %s", container.Name, argument)
		}
	}
}

// checkRights: the account of the pod may make the calls that its sidecars need.
func checkRights(c *cluster, set *apps.DaemonSet) {
	pod := podOf(c, set)
	granted := rulesOf(c)
	for key, text := range sidecarNeeds {
		words := strings.Fields(key)
		if !applies(c, pod, words) {
			continue
		}
		for _, line := range strings.Split(text, "\n") {
			what, verbs, _ := strings.Cut(strings.TrimSpace(line), ": ")
			group, resource, _ := strings.Cut(what, "/")
			for _, verb := range strings.Fields(verbs) {
				if !allowed(granted, group, resource, verb) {
					c.fault("the %s may not %s %s", words[0], verb, describe(group, resource))
				}
			}
		}
	}
}

// applies to a pod: "SIDECAR", "SIDECAR --FLAG" or "SIDECAR with SIDECAR".
func applies(c *cluster, pod *podFacts, words []string) bool {
	container := pod.container(words[0])
	switch {
	case container == nil || len(words) == 1:
		return container != nil
	case words[1] == "with":
		return pod.container(words[2]) != nil
	default:
		return slices.Contains(pod.arguments(c, container), words[1])
	}
}

// All roles count, because checkRoles has checked that each binding is for the pod's account.
func rulesOf(c *cluster) (rules []rbac.PolicyRule) {
	bound := map[string]bool{}
	for _, binding := range all[*rbac.ClusterRoleBinding](c.objects) {
		bound["ClusterRole "+binding.RoleRef.Name] = true
	}
	for _, binding := range all[*rbac.RoleBinding](c.objects) {
		bound[binding.RoleRef.Kind+" "+binding.RoleRef.Name] = true
	}
	for _, role := range all[*rbac.ClusterRole](c.objects) {
		if bound["ClusterRole "+role.Name] {
			rules = append(rules, role.Rules...)
		}
	}
	for _, role := range all[*rbac.Role](c.objects) {
		if bound["Role "+role.Name] {
			rules = append(rules, role.Rules...)
		}
	}
	return rules
}

func allowed(rules []rbac.PolicyRule, group, resource, verb string) bool {
	return slices.ContainsFunc(rules, func(rule rbac.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) &&
			slices.Contains(rule.Verbs, verb)
	})
}

func describe(group, resource string) string {
	if group == "" {
		return resource
	}
	return fmt.Sprintf("%s.%s", resource, group)
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	groupsnapshot "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1beta2"
	snapshot "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

type kubernetesObject interface {
	runtime.Object
	meta.Object
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, apps.AddToScheme, storage.AddToScheme, rbac.AddToScheme, snapshot.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	// v1 has the types of v1beta2. Its Go package needs a newer Go than the other modules.
	v1 := schema.GroupVersion{Group: groupsnapshot.SchemeGroupVersion.Group, Version: "v1"}
	scheme.AddKnownTypes(v1, &groupsnapshot.VolumeGroupSnapshotClass{})
	return scheme, nil
}

// build returns the objects of a kustomization. An unknown field, or a field that occurs twice, is an
// error. The API server would only warn of it.
func build(directory string) ([]kubernetesObject, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return nil, fmt.Errorf("kustomize: %w", err)
	}
	var objects []kubernetesObject
	seen := map[string]bool{}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		decoded, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", resource.CurId(), err)
		}
		object, ok := decoded.(kubernetesObject)
		if !ok {
			return nil, fmt.Errorf("%s is no object with a name", resource.CurId())
		}
		if seen[resource.CurId().String()] {
			return nil, fmt.Errorf("%s is there twice", resource.CurId())
		}
		seen[resource.CurId().String()] = true
		objects = append(objects, object)
	}
	return objects, nil
}

// buildWithAll returns `classic` with all other components, which must work together. It makes a
// kustomization of its own, as users write one.
func buildWithAll(directory string) ([]kubernetesObject, error) {
	folder, err := os.MkdirTemp("", "mooring-kustomization.")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	there, err := relative(folder, directory)
	if err != nil {
		return nil, err
	}
	components, err := os.ReadDir(filepath.Join(directory, "components"))
	text := fmt.Sprintf("resources: [%s/classic]\ncomponents:\n", there)
	slices.Reverse(components) // group-snapshots changes snapshots, so it comes later
	for _, component := range components {
		if name := component.Name(); name != "registrar" && name != "resizer" {
			text += fmt.Sprintf("  - %s/components/%s\n", there, name)
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)
	}
	if err != nil {
		return nil, err
	}
	return build(folder)
}

// relative returns the relative path between two directories. Kustomize takes no absolute paths and no links.
func relative(from, to string) (string, error) {
	to, err := filepath.Abs(to)
	for _, path := range []*string{&from, &to} {
		if err == nil {
			*path, err = filepath.EvalSymlinks(*path)
		}
	}
	if err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

// all returns the objects of one type.
func all[T kubernetesObject](objects []kubernetesObject) []T {
	var found []T
	for _, object := range objects {
		if one, ok := object.(T); ok {
			found = append(found, one)
		}
	}
	return found
}

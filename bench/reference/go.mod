// The versions of which bench/install-reference builds the older form of the reference driver. It has no go.mod of its
// own. The versions are those of its Gopkg.lock, or near ones where that names commits without a version.
module mooring.invalid/reference

go 1.25.0

require (
	github.com/container-storage-interface/spec v1.0.0
	github.com/golang/glog v0.0.0-20160126235308-23def4e6c14b
	github.com/golang/protobuf v1.3.2
	github.com/kubernetes-csi/csi-lib-utils v0.2.0
	github.com/kubernetes-csi/drivers v1.0.2
	github.com/pborman/uuid v1.2.0
	google.golang.org/grpc v1.16.0
	k8s.io/apimachinery v0.17.0
	k8s.io/kubernetes v1.12.2
	k8s.io/utils v0.0.0-20191114184206-e782cd3c129f
)

# shellcheck shell=bash disable=SC2154 # work and programs are run's
# A Kubernetes node, with its API server and controllers. Sourced by run, inside the namespaces.

readonly node=node-1 node_address=192.168.77.1 service_address=10.96.0.1 pods=10.244.0.0/16
export KUBECONFIG=$work/kubeconfig
PATH=$programs:$PATH

# Gives the node directories of its own at the paths that are fixed.
cover_paths() {
  mount -t tmpfs log /var/log
  mount -t tmpfs lib /var/lib
  mkdir -p "$work/kubelet" /var/lib/{kubelet,mooring,cni} "$work"/{containerd,cni,keys,flex}
  mount --bind "$work/kubelet" /var/lib/kubelet
  mount -t tmpfs shared /dev/shm
  cover_settings
}

# Kubelet sets these values of the kernel, which are the whole machine's. It writes to files instead.
cover_settings() {
  local setting
  for setting in vm/overcommit_memory kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    mkdir -p "$work/settings/${setting%/*}"
    cat "/proc/sys/$setting" >"$work/settings/$setting"
    mount --bind "$work/settings/$setting" "/proc/sys/$setting"
  done
}

# The volumes lie on xfs, so that copies of volumes in use need no pause. Images of 2 TiB fit, because they are sparse.
make_pool() {
  truncate -s 40G "$work/pool"
  mkfs.xfs -q "$work/pool"
  mount -o loop "$work/pool" /var/lib/mooring
}

# The API server listens at the address of its service, so no kube-proxy is needed.
make_network() {
  ip link add node0 type bridge
  ip address add "$node_address/24" dev node0
  ip address add "$service_address/32" dev lo
  ip link set node0 up
  cat >"$work/cni/10-pods.conflist" <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
}

make_keys() (
  cd "$work/keys" || return
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=ca -keyout ca.key -out ca.crt
  openssl req -newkey rsa:2048 -nodes -subj /CN=kube-apiserver -keyout server.key -out server.csr
  openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out server.crt \
    -extfile <(printf 'subjectAltName=IP:127.0.0.1,IP:%s,IP:%s,DNS:kubernetes.default.svc' "$node_address" "$service_address")
  openssl genrsa -out accounts.key 2048
  openssl rsa -in accounts.key -pubout -out accounts.pub
  printf 'administrator,administrator,1,"system:masters"\n' >tokens
) 2>/dev/null

write_kubeconfig() {
  cat >"$KUBECONFIG" <<END
apiVersion: v1
kind: Config
clusters: [{name: real, cluster: {server: "https://$node_address", certificate-authority: $work/keys/ca.crt}}]
users: [{name: administrator, user: {token: administrator}}]
contexts: [{name: real, context: {cluster: real, user: administrator}}]
current-context: real
END
}

start_control_plane() {
  mkdir "$work/etcd"
  mount -t tmpfs etcd "$work/etcd"
  start etcd etcd --data-dir "$work/etcd" --quota-backend-bytes 4294967296
  start kube-apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --secure-port 443 \
    --advertise-address "$node_address" --kubelet-preferred-address-types InternalIP --service-cluster-ip-range "${service_address%.*}.0/24" \
    --tls-cert-file "$work/keys/server.crt" --tls-private-key-file "$work/keys/server.key" --token-auth-file "$work/keys/tokens" \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$work/keys/accounts.pub" \
    --service-account-signing-key-file "$work/keys/accounts.key" --authorization-mode RBAC --allow-privileged
  await "the API server is ready" kubectl get --raw /readyz
  start kube-controller-manager kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false \
    --root-ca-file "$work/keys/ca.crt" --service-account-private-key-file "$work/keys/accounts.key" \
    --flex-volume-plugin-dir "$work/flex" --kube-api-qps 100 --kube-api-burst 200
  start kube-scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false
}

start_containerd() {
  cat >"$work/containerd.toml" <<END
version = 2
root = "$work/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$(names_of pause)"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$work/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
END
  start containerd containerd --config "$work/containerd.toml"
  await "containerd serves" ctr version
}

start_kubelet() {
  local controller
  for controller in /sys/fs/cgroup/*/; do mkdir -p "$controller$cgroup"; done
  cat >"$work/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: $cgroup
failCgroupV1: false # this machine may have the older control groups
failSwapOn: false
evictionHard: {nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%, memory.available: 50Mi}
imageGCHighThresholdPercent: 100 # images that are removed cannot be pulled again
makeIPTablesUtilChains: false
maxPods: 250
podLogsDir: /var/log/pods
resolvConf: ""
volumePluginDir: $work/flex
END
  start kubelet kubelet --config "$work/kubelet.yaml" --kubeconfig "$KUBECONFIG" --hostname-override "$node" \
    --node-ip "$node_address" --root-dir /var/lib/kubelet
  await "the node is ready" kubectl wait --for condition=Ready --timeout 1s "node/$node"
}

# The provisioner writes one object with free space a second. The suite makes a class for each spec, and all classes get
# a new object with each volume. So pods would wait minutes.
raise_limit() { sed -E 's/^( *- )--enable-capacity$/&\n\1--kube-api-capacity-qps=100\n\1--kube-api-capacity-burst=200/'; }

# As docs/kubernetes.md says, with the folder that has everything.
install_mooring() {
  kubectl apply --server-side -f <(kubectl kustomize "$programs/../sidecars/github.com_kubernetes-csi_external-snapshotter_client_v8/config/crd") >/dev/null
  start snapshot-controller snapshot-controller --kubeconfig "$KUBECONFIG" --leader-election=false \
    --feature-gates CSIVolumeGroupSnapshot=true
  kubectl kustomize "$MOORING_ROOT/packaging/kubernetes/group-snapshots" | raise_limit | kubectl apply -f - >/dev/null
  await "the plugin is ready" kubectl -n mooring rollout status --timeout 1s daemonset/mooring
  await "the driver is registered" is_registered
  kubectl get storageclass mooring-ext4 -o json | jq '.metadata = {name: "mooring-immediate"} | .volumeBindingMode = "Immediate"' |
    kubectl apply -f - >/dev/null
}

is_registered() { kubectl get csinode "$node" -o yaml | grep -q mooring.csi; }

set_up_node() {
  mount --bind "$work" "$work"
  mount --make-rshared / # kubelet's mounts reach the pods
  cover_run
  make_images
  cover_paths
  make_pool
  make_network
  make_keys
  write_kubeconfig
  start_control_plane
  start_containerd
  import_images
  start_kubelet
  install_mooring
}

# All pods end, so that the plugin unmounts what it has mounted.
tear_down_node() {
  kubectl delete namespace -l e2e-framework --timeout 90s >/dev/null || true
  kubectl -n mooring delete daemonset mooring --timeout 90s >/dev/null || true
  end kubelet TERM
  end containerd TERM
}

# shellcheck shell=bash disable=SC2154 # work, programs and bin are run's
# The images of the pods, made here, because none can be pulled. Sourced by run, inside the namespaces.

images=$work/images

# pack NAME TAG... [-- CHANGE...]: what is in $images/NAME, as the file $images/NAME.tar that containerd imports.
pack() {
  local name=$1 tag change tags=() changes=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    tags+=("$1")
    shift
  done
  for change in "${@:2}"; do changes+=(--change "$change"); done
  tar -C "$images/$name" -c . | podman_do import -q "${changes[@]}" - "${tags[0]}" >/dev/null
  for tag in "${tags[@]:1}"; do podman_do tag "${tags[0]}" "$tag"; done
  podman_do save -q --format docker-archive -m -o "$images/$name.tar" "${tags[@]}"
  rm -r "${images:?}/$name"
}

# busybox_in NAME: a root with busybox and all its commands.
busybox_in() {
  local root=$images/$1
  mkdir -p "$root"/{bin,dev,etc,proc,sys,tmp,root}
  chmod 1777 "$root/tmp"
  cp -- "$(command -v busybox)" "$root/bin/busybox"
  "$root/bin/busybox" --list | grep -vx busybox | xargs -I{} ln -s busybox "$root/bin/{}"
  printf 'root:x:0:0::/root:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\n' >"$root/etc/group"
}

# add_gnu NAME: adds the dd of GNU, which knows oflag=nocache, and a shell that runs it instead of busybox's own.
add_gnu() {
  local root=$images/$1
  rm "$root/bin"/{dd,sh}
  ldd /bin/{dd,dash} | grep -oE '/[^ :]+ ' | sort -u | xargs cp -L --parents -t "$root"
  cp -- /bin/dd "$root/bin/dd"
  cp -- /bin/dash "$root/bin/sh"
}

# names_of NAME: the images that the suite asks for under this name, a line each.
names_of() { "$programs/e2e.test" --list-images 2>/dev/null | grep -E "/$1:"; }

# pack_program NAME TAG...
pack_program() {
  mkdir "$images/$1"
  cp -- "$programs/$1" "$images/$1/"
  pack "$@" -- "ENTRYPOINT [\"/$1\"]"
}

# shellcheck disable=SC2046 # a word for each name
# pack_tools: the images of the suite's own pods.
pack_tools() {
  busybox_in busybox
  pack busybox $(names_of busybox) $(names_of nginx) -- 'CMD ["sh"]'
  mkdir "$images/pause"
  cp -- "$programs/agnhost" "$images/pause/"
  pack pause $(names_of pause) -- 'ENTRYPOINT ["/agnhost", "pause"]'
  busybox_in glibc
  add_gnu glibc
  pack glibc $(names_of glibc-dns-testing) -- 'CMD ["sh"]'
  busybox_in agnhost
  cp -- "$programs/agnhost" "$images/agnhost/"
  pack agnhost $(names_of agnhost) -- 'ENTRYPOINT ["/agnhost"]' 'CMD ["pause"]'
  pack_program hello-populator $(names_of hello-populator)
}

# pack_sidecars: under the names in packaging/kubernetes.
pack_sidecars() {
  local sidecar
  for sidecar in csi-provisioner csi-resizer csi-snapshotter; do
    pack_program $sidecar "$(grep -rhoE "registry[a-z0-9./-]+/$sidecar:v[0-9.]+" "$MOORING_ROOT/packaging/kubernetes" | sort -u)"
  done
}

make_images() {
  write_podman_configuration
  mkdir -p "$images"
  pack_tools
  pack_sidecars
  "$MOORING_ROOT/packaging/image" --engine "$(engine_command podman)" --prebuilt "${bin%/bin}" \
    --tag "docker.io/library/mooring:$(sed -nE 's/^ +newTag: //p' "$MOORING_ROOT/packaging/kubernetes/base/kustomization.yaml")" >/dev/null
  podman_do save -q --format docker-archive -o "$images/mooring.tar" "$(podman_do images --format '{{.Repository}}:{{.Tag}}' | grep /mooring:)"
}

import_images() {
  local image
  for image in "$images"/*.tar; do ctr -n k8s.io images import "$image" >/dev/null; done
}

# shellcheck shell=bash disable=SC2154 # run's
# csi-sanity in the machine.

# sanity_passes ROW SOCKET SIZE EXPANDED FLAG...: ROW: of tests/sanity/expected-totals. The sizes of its volumes are in MiB.
sanity_passes() {
  local row=$1 socket=$2 size=$3 expanded=$4 said=$work/$1-sanity.log program=/usr/local/bin/csi-sanity
  shift 4
  inside_with_input sh -c "cat >$program && chmod 755 $program" <"$MOORING_ROOT/build/tools/bin/csi-sanity"
  inside sh -c "mkdir -p /srv/sanity && printf 'noatime: \"true\"\n' >/srv/sanity/mutable"
  inside "$program" -ginkgo.no-color -ginkgo.timeout=60m "-csi.endpoint=unix://$socket" \
    -csi.mountdir=/srv/sanity/mount -csi.stagingdir=/srv/sanity/staging -csi.testvolumeaccesstype=mount \
    -csi.testnodevolumeattachlimit "-csi.testvolumesize=$((size << 20))" "-csi.testvolumeexpandsize=$((expanded << 20))" \
    -csi.testvolumemutableparameters=/srv/sanity/mutable "$@" >"$said" 2>&1 || { cat "$said" && fail "csi-sanity failed"; }
  expect "the totals of csi-sanity" \
    "$(sed -nE 's/^(Ran [0-9]+ of [0-9]+ Specs) in .*/\1/p; s/^.*-- ([0-9]+ Passed \|.*)$/\1/p' "$said" | paste -sd,)" \
    "$(sed -n "s/^$row: //p" "$MOORING_ROOT/tests/sanity/expected-totals")"
}

# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# Makes the calls of kubelet.table to the plugin in its container.

# replay TABLE: expects the result of each row.
replay() {
  local number=0 row point verb wanted table
  table=$(basename "$1")
  while IFS= read -r row; do
    number=$((number + 1))
    [[ $row != '#'* ]] || continue
    IFS='|' read -r point verb wanted <<<"$row"
    read -ra verb <<<"$verb"
    expect "$table:$number, ${point%% *}: ${verb[*]}" "$(result_of "$wanted" "${verb[@]}")" "$(trimmed "$wanted")"
  done <"$1"
}

trimmed() { sed -E 's/^ +| +$//g' <<<"$1"; }

# result_of WANTED VERB WORD...: prints OK, the code of an error (or its text), or the output if WANTED has a "=".
result_of() {
  local printed status
  set +e
  printed=$(
    set -e
    "kubelet_$2" "${@:3}" 2>"$work/said"
  )
  status=$?
  set -e
  if [ "$status" -ne 0 ]; then
    sed -nE 's/^mooring: [^:]*: ([A-Z_]+) \([0-9]+\): .*/\1/p' "$work/said" | grep . || cat "$work/said"
  elif [[ $1 == *=* ]]; then
    printf '= %s\n' "$printed"
  else
    echo OK
  fi
}

kubelet_uses_the_plugin_of() {
  engine=$1
  use_host "kubelet-$engine"
  start_plugin "$engine" plugin "$plugin_image" "${flags[@]}"
  await_plugin "$socket"
  replay "$here/kubelet.table"
  stop_plugin "$engine" plugin
  leave_host
}

test_the_calls_of_kubelet_in_docker() { kubelet_uses_the_plugin_of docker; }
test_the_calls_of_kubelet_in_podman() { kubelet_uses_the_plugin_of podman; }

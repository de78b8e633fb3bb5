# shellcheck shell=bash disable=SC2154 # work and patience are the scripts'
# Functions of the test scripts. They run each function test_* in a shell of its own, and print its result.
# `patience`: seconds to wait for an expected event. `work`: a scratch folder. `logs`: the files $work/NAME.log to show when a
# test fails. `on_failure`: an optional function that shows more.

passed=0 failed=0 skipped=0

fail() {
  say "$*"
  exit 1
}

# in_mounts_of_its_own "$@": continues in a mount namespace of its own, which takes its mounts along however it ends. Call it
# early, with the script's own arguments.
in_mounts_of_its_own() {
  if [ "${has_own_mounts:-}" != yes ]; then has_own_mounts=yes exec unshare --mount --propagation private -- "$0" "$@"; fi
  unset has_own_mounts
}

# await EVENT COMMAND...: repeats the command until it succeeds.
await() {
  local what=$1 deadline=$((SECONDS + patience))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || fail "not after $patience s: $what"
    sleep 0.05
  done
}

# skip REASON: the test cannot run here. A program says the same with automake's exit status 77.
skip() {
  say "skipped: $*"
  exit 77
}

# expect WHAT GOT WANTED
expect() { [ "$2" = "$3" ] || fail "$1 is '$2', not '$3'"; }

# expect_match WHAT GOT REGEX
expect_match() { [[ $2 =~ $3 ]] || fail "$1 is '$2', which does not match '$3'"; }

# refused WORDS COMMAND...: the command must fail with these words.
refused() {
  local words=$1 said
  shift
  if said=$("$@" 2>&1); then fail "not refused: $*"; fi
  [[ $said == *"$words"* ]] || fail "refused without '$words': $said"
}

# A test ends at its first failure. After a || bash would ignore `set -e`.
run_test() {
  local name=$1 started=$SECONDS status log
  set +e
  (
    set -e
    "$name"
  ) >"$work/$name.log" 2>&1
  status=$?
  set -e
  if [ "$status" -eq 0 ]; then
    passed=$((passed + 1))
    say "ok      $name ($((SECONDS - started)) s)"
    return
  elif [ "$status" -eq 77 ]; then
    skipped=$((skipped + 1))
    say "skipped $name: $(sed -n 's/^skipped: //p' "$work/$name.log" | tail -n 1)"
    return
  fi
  failed=$((failed + 1))
  say "FAILED  $name"
  sed 's/^/        /' "$work/$name.log"
  for log in "${logs[@]}"; do tail -n 30 "$work/$log.log" | sed "s/^/        $log: /" || true; done
  if declare -F on_failure >/dev/null; then on_failure || true; fi
}

# run_tests REGEX: runs the tests whose name matches. Fails if a test fails, or if there is none. Status 77: all are skipped.
run_tests() {
  local test
  for test in $(declare -F | awk '$3 ~ /^test_/ { print $3 }' | grep -E -e "$1"); do run_test "$test"; done
  if [ "$skipped" -gt 0 ]; then say "$passed passed, $failed failed, $skipped skipped"; else say "$passed passed, $failed failed"; fi
  [ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ] || return 1
  [ "$passed" -gt 0 ] || return 77
}

# shellcheck shell=bash
# Programs that play with mounts. Sourced, after packaging/lib.sh, by the scripts of tests/model, tests/judges and tests/soak.
#
# A player has mount and process namespaces of its own, so that it leaves no mount and no process, and its work in memory.
# It is in the background, so that a signal to the script ends it.

players=()
on_exit end_players

# start_player DIR COMMAND...: a tmpfs is at DIR. The shell stays, because it reaps what plugins leave. A shell without job
# control ignores SIGINT in what it starts in the background, and so would the command.
start_player() {
  mkdir -p "$1"
  set -m
  # shellcheck disable=SC2016 # for the inner shell
  unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
    sh -c 'mount -t tmpfs none "$1" && shift && env --default-signal=INT "$@"; exit $?' - "$@" </dev/null &
  players+=($!)
  set +m
}

# wait_for_players: returns when all have ended, and fails if one has failed.
wait_for_players() {
  local player status=0
  for player in "${players[@]}"; do wait "$player" || status=1; done
  players=()
  return "$status"
}

# SIGINT, because Python then runs its `finally`, which detaches the loop devices.
# shellcheck disable=SC2317 # a hook of on_exit
end_players() {
  local player
  for player in "${players[@]}"; do kill -INT -- "-$player" 2>/dev/null || true; done
  for player in "${players[@]}"; do wait "$player" || true; done
}

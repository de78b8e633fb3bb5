# shellcheck shell=bash disable=SC2154 # become-systemd's
# Sourced by become-systemd: what `cmake --install` has put into $work/stage.

make_usr "$work/stage/usr"
mkdir -p build etc/default
cp "$work"/stage/etc/default/* etc/default/
mount --bind "$sources/build/release/bin" build # for plugins that the manager runs
for unit in mooring-manager mooring-plugin; do
  mkdir "etc/systemd/system/$unit.service.d"
  : >"$work/$unit.log"
  : >"$unit.log"
  mount --bind "$work/$unit.log" "$unit.log"
  printf '[Service]\nStandardOutput=append:/%s.log\nStandardError=inherit\n' "$unit" >"etc/systemd/system/$unit.service.d/log.conf"
done

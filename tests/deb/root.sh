# shellcheck shell=bash disable=SC2154 # become-systemd's
# Sourced by become-systemd: this machine's packages, with their database, and ours to be installed.

make_usr
cp -a /var/lib/dpkg var/lib/ # a copy: this machine's may change meanwhile
# Mooring may be installed on this machine. It is not installed in the new root yet.
awk -v RS= -v ORS='\n\n' '!/^Package: mooring-/' /var/lib/dpkg/status >var/lib/dpkg/status
rm -f var/lib/dpkg/info/mooring-*
: >var/lib/dpkg/triggers/File # those of others: a database of manual pages is none of ours
: >var/lib/dpkg/statoverride   # it names users who are not there
rm -f usr/sbin/policy-rc.d # it says on some machines that no package starts anything
mkdir -p var/log etc/dpkg packages
cp "$work"/packages/*.deb packages/
mkdir packages/newer
cp "$work"/newer/*.deb packages/newer/
mkdir etc/systemd/system/mooring-plugin.service.d
: >"$work/mooring-plugin.log"
: >mooring-plugin.log
mount --bind "$work/mooring-plugin.log" mooring-plugin.log
printf '[Service]\nStandardOutput=append:/mooring-plugin.log\nStandardError=inherit\n' >etc/systemd/system/mooring-plugin.service.d/log.conf

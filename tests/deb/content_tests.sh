# shellcheck shell=bash disable=SC2154,SC2016 # run's, dpkg-query's
# Checks the content of the packages.

names=(mooring-cli mooring-manager mooring-plugin)
package() { printf '%s\n' "$work/packages/$1"_*.deb; }
unpack() { [ -d "$work/tree/$1" ] || dpkg-deb -R "$(package "$1")" "$work/tree/$1"; }
programs_of() { find "$work/tree/$1/usr/bin" "$work/tree/$1/usr/libexec" -type f 2>/dev/null || true; }
files_of() { dpkg-deb --fsys-tarfile "$(package "$1")" | tar -t | sed 's/^\.//' | grep -v '/$' | LC_ALL=C sort; }

test_a1_each_file_is_in_its_package() {
  local name
  for name in "${names[@]}"; do
    expect "what $name has, but for its documents" "$(files_of "$name" | grep -v "^/usr/share/doc/$name/")" \
      "$(sed -n "/^\[$name\]/,/^\$/p" "$here/expected-files" | grep ^/)"
  done
}

# docs/operations.md names their paths.
test_a1b_the_plugin_has_the_documents_the_alerts_and_the_dashboard() {
  local file
  unpack mooring-plugin
  for file in grafana/mooring.json prometheus/mooring.rules.yaml; do
    cmp "$MOORING_ROOT/packaging/$file" "$work/tree/mooring-plugin/usr/share/doc/mooring-plugin/examples/${file#*/}"
  done
  for file in "$MOORING_ROOT"/docs/*.md; do cmp "$file" "$work/tree/mooring-plugin/usr/share/doc/mooring-plugin/${file##*/}"; done
}

# The build puts them into the page: cli/CMakeLists.txt.
test_a1c_the_man_page_has_the_commands() {
  unpack mooring-cli
  zgrep -q '^\.Ss mooring volume create' "$work/tree/mooring-cli/usr/share/man/man8/mooring.8.gz"
}

test_a2_lintian_finds_no_new_fault() {
  TMPDIR=$work lintian --no-cfg --allow-root --fail-on error,warning,info --display-info "$work"/packages/*.deb
}

# Prints "LIBRARY NAME" lines: the package of each library, and the packages that it provides.
names_of_libraries() {
  local package path
  printf '*/%s\n' "$@" | xargs dpkg-query -S | sed 's/[:,].* / /' | while read -r package path; do
    dpkg-query -W -f '${Package}, ${Provides}\n' "$package" | tr ',' '\n' | awk -v of="${path##*/}" 'NF { print of, $1 }'
  done
}

test_a3_packages_depend_on_the_libraries_of_their_programs() {
  local name libraries library depends names
  for name in "${names[@]}"; do
    unpack "$name"
    depends=$(dpkg-deb -f "$(package "$name")" Depends | tr ',|' '\n' | awk '{ print $1 }')
    mapfile -t libraries < <(programs_of "$name" | xargs readelf -dW | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | sort -u)
    names=$(names_of_libraries "${libraries[@]}")
    for library in "${libraries[@]}"; do
      awk -v of="$library" '$1 == of { print $2 }' <<<"$names" | grep -qxF "$depends" || fail "$name loads $library"
    done
  done
}

# Compares without compression, because that takes most of the time. Runs as with sudo, which leaves no file of root in the
# build folder, and with an older package in the output folder.
test_a4_packing_again_gives_the_same_bytes() {
  local name part
  mkdir "$work/elsewhere" "$work/again" # a folder is in nothing that is packed
  : >"$work/again/mooring-cli_0.0.1-1_all.deb"
  chown 12345 "$MOORING_ROOT/build/packages.log"
  SUDO_UID=12345 TMPDIR=$work/elsewhere "$MOORING_ROOT/packaging/deb" --output "$work/again" --plain >"$work/made"
  expect "whose the log is" "$(stat -c %u "$MOORING_ROOT/build/packages.log")" "$(stat -c %u "$MOORING_ROOT")"
  expect "what is summed up" "$(sed "s,^[0-9a-f]*  ,$work/again/," "$work/again/SHA256SUMS")" "$(cat "$work/made")"
  rm "$work/again/mooring-cli_0.0.1-1_all.deb"
  for name in "${names[@]}"; do
    for part in --ctrl-tarfile --fsys-tarfile; do
      cmp <(dpkg-deb "$part" "$(package "$name")") <(dpkg-deb "$part" "$work/again/${name}"_*.deb)
    done
  done
}

test_a5_no_folder_and_no_time_of_the_build_is_in_a_program() {
  local name program
  for name in "${names[@]}"; do
    unpack "$name"
    for program in $(programs_of "$name"); do
      if grep -aqF -e "$MOORING_ROOT" -e "$work" -e "$(date -u +%b\ %e\ %Y)" "$program"; then fail "in $program"; fi
      expect "debugging information in $program" "$(readelf -SW "$program" | grep -c '\.debug_' || true)" 0
    done
  done
}

test_a6_each_program_tells_release_and_commit() {
  local name program commit said=()
  commit=$(sed -nE 's/^const char\* Commit\(\) .*"(.*)".*/\1/p' "$MOORING_ROOT/build/release/generated/base/version.cc")
  if [ -e "$MOORING_ROOT/.git" ]; then expect_match "the commit" "$commit" '^[0-9a-f]{12}(-dirty)?$'; fi
  for name in "${names[@]}"; do
    unpack "$name"
    for program in $(programs_of "$name"); do
      said+=("$program")
      expect "what ${program##*/} says" "$("$program" --version)" \
        "${program##*/} $(dpkg-deb -f "$(package "$name")" Version | sed -E 's/-1(~deb[0-9]+)?$//') ($commit)"
    done
  done
  expect "programs" "${#said[@]}" 4
}

test_a7_the_bills_of_materials_are_right() {
  local name
  for name in "${names[@]}"; do
    unpack "$name"
    python3 "$here/check_sbom.py" "$work/tree/$name" "$name"
  done
}

# An archive has no .git. git writes the commit into a file of it.
test_a8_an_archive_tells_its_commit() {
  local commit tree=$work/archive
  git -C "$MOORING_ROOT" -c safe.directory="$MOORING_ROOT" rev-parse HEAD >"$work/head" 2>/dev/null || return 0 # is one itself
  commit=$(cat "$work/head")
  mkdir "$tree"
  git -C "$MOORING_ROOT" -c safe.directory="$MOORING_ROOT" archive HEAD cmake base .gitattributes | tar -x -C "$tree"
  cat >"$tree/show.cmake" <<'END'
set(PROJECT_SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR})
set(PROJECT_BINARY_DIR ${CMAKE_CURRENT_LIST_DIR}/build)
include(${PROJECT_SOURCE_DIR}/cmake/Version.cmake)
END
  cmake -P "$tree/show.cmake"
  expect_match "the commit of an archive" "$(cat "$tree/build/generated/base/version.cc")" "\"${commit:0:12}\""
}

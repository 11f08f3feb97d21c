# SPDX-License-Identifier: Apache-2.0
"""`nanet build-algorithm`: builds a plug-in from a header with an algorithm (docs/writing-algorithms.md)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from nanet import _core
from nanet.cli.options import JsonFile
from nanet.errors import UsageError, describe_os_error
from nanet.report.output import check_distinct, console, working, write_json
from nanet.run.core_options import load_algorithm

OLDEST_CUDA = (12, 8)
# Machine code for Hopper, and PTX for the driver to compile for any other GPU since Ampere.
ARCHITECTURES = ("arch=compute_80,code=compute_80", "arch=compute_90,code=sm_90")
SHARED = ["-std=c++20", "-O3"]
# A call of host code in device code is an error: such a kernel would return nothing or stop.
DEVICE = ["-fmad=false", "-Werror", "cross-execution-space-call"]
HOST_CALL = "__host__ function"  # in nvcc's message
CPU = [
    "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-Wall", "-Wno-psabi",
]  # fmt: skip


def build_algorithm(
    header: Annotated[str, typer.Argument(metavar="FILE", help="Header with the algorithm.")],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Plug-in to write (default: FILE's stem .so)."),
    ] = None,
    cuda: Annotated[
        str,
        typer.Option(
            "--cuda", metavar="TEXT", help="Compile for GPUs too: auto (if nvcc is found), on or off."
        ),
    ] = "auto",
    json_file: JsonFile = None,
) -> None:
    """Compiles a header with a user algorithm into a plug-in for --algorithm.

    Compilers: CXX (else g++, c++ or clang++) and CUDACXX (else nvcc on the path, in /usr/local/cuda, or
    from PyPI in this Python's environment), 12.8 or newer.
    """
    source = Path(header)
    if not source.is_file():
        raise UsageError(f"{header}: there is no such file; give the header with the algorithm")
    if cuda not in ("auto", "on", "off"):
        raise UsageError(f"--cuda {cuda}: must be auto, on or off")
    target = Path(output or f"{source.stem}.so")
    check_distinct(input=header, output=str(target), json=json_file)
    cxx, nvcc, why = find_cxx(), None, "--cuda off"
    if cuda != "off":
        nvcc, why = find_nvcc()
        if cuda == "on" and not nvcc:
            raise UsageError(f"--cuda on: {why}; name one with CUDACXX, or leave it to --cuda auto")
    out = console(json_file)
    given = target if "/" in str(target) else f"./{target}"
    with tempfile.TemporaryDirectory(prefix="nanet-algorithm-") as folder:
        with working(out, "compiling …", plain=False):
            built, kernels = compile_plugin(source.resolve(), Path(folder), cxx, nvcc)
        check_registered(header, built)
        algorithm = load_algorithm(str(built))  # before a file is left
        try:
            # Replaces the old file instead of overwriting it: a running trigger may have it mapped.
            placed = target.with_name(f".{target.name}.{os.getpid()}")
            shutil.copyfile(built, placed)
            os.replace(placed, target)
        except OSError as error:
            raise UsageError(
                f"--output {describe_os_error(error)}; give a file that can be written"
            ) from None
    runs = "CPUs and GPUs" if algorithm.cuda else f"CPUs only ({why})"
    out.print(
        f"{target}: {algorithm.name}, for {runs}; use it with --algorithm {given}",
        highlight=False,
        soft_wrap=True,
    )
    for kernel in kernels:
        spilled = f", {kernel['spilled_bytes']} B spilled" if kernel["spilled_bytes"] else ""
        takes = f"{kernel['registers']} registers a thread{spilled}"
        out.print(f"  {kernel['kernel']} on {kernel['architecture']}: {takes}", highlight=False)
    said = {"algorithm": algorithm.name, "file": str(target), "cuda": algorithm.cuda, "kernels": kernels}
    write_json(said, json_file)


def headers() -> Path:
    """Folder of nanet's headers: in the package, or in the source tree around it."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "include", package.parent.parent / "src"):
        if (folder / "nanet" / "plugin" / "algorithm.hpp").is_file():
            return folder
    raise UsageError("nanet's headers are not there: this installation of nanet is incomplete")


def build_id() -> str:
    """Version and hash of nanet's headers: in a source tree those of now, else those of the package."""
    root = Path(__file__).resolve().parents[3]
    script = root / "cmake" / "plugin_build_id.cmake"
    if headers() != root / "src" or not script.is_file():
        return str(_core.plugin_build_id()).rpartition(".")[0]
    command = [cmake(), f"-DINCLUDE_DIR={headers()}", f"-DVERSION={_core.__version__}", "-P", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{script}: {done.stderr.strip()}")
    return done.stderr.strip()


def cmake() -> str:
    """Path of CMake."""
    found = shutil.which("cmake", path=Path(sys.executable).parent) or shutil.which("cmake")
    if not found:
        raise UsageError("there is no cmake, which computes the build ID: install it, or run ./dev build")
    return found


def find_cxx() -> str:
    """Path of the C++ compiler."""
    for name in filter(None, (os.environ.get("CXX"), "g++", "c++", "clang++")):
        if found := shutil.which(name):
            return found
    raise UsageError("there is no C++ compiler: install g++, or name one with CXX")


def find_nvcc() -> tuple[str | None, str]:
    """Path of nvcc, or None with the reason."""
    site = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    wanted = os.environ.get("CUDACXX")
    places = [wanted] if wanted else ["nvcc", "/usr/local/cuda/bin/nvcc", f"{site}/nvidia/cu13/bin/nvcc"]
    why = f"there is no nvcc: {wanted}" if wanted else "there is no nvcc"
    for place in places:
        found = shutil.which(place)
        if not found:
            continue
        said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
        release = re.search(r"release (\d+)\.(\d+)", said)
        if release and (int(release[1]), int(release[2])) >= OLDEST_CUDA:
            return found, ""
        number = release[0].removeprefix("release ") if release else "of no known release"
        why = f"{found} is {number}, and 12.8 is needed"
    return None, why


def compile_plugin(
    header: Path, folder: Path, cxx: str, nvcc: str | None
) -> tuple[Path, list[dict[str, str | int]]]:
    """Compiles the plug-in in `folder` and returns the resources of its kernels (kernels_of).

    UsageError if the header does not compile; the compiler's messages are on standard error.
    """
    include, target = f"-I{headers()}", folder / "plugin.so"
    identity = f'-DNANET_PLUGIN_BUILD_ID="{build_id()}"'
    (folder / "cpu.cpp").write_text(f'#include "{header}"\n')
    objects = [str(folder / "cpu.o")]
    native = ["-march=native"] if os.uname().machine == "x86_64" else []
    defines = ["-DNANET_PLUGIN_CPU", identity, *(["-DNANET_PLUGIN_WITH_CUDA"] if nvcc else [])]
    run(header, cxx, *SHARED, *CPU, *native, *defines, include, "-c", f"{folder}/cpu.cpp", "-o", objects[0])
    libraries: list[str] = []
    kernels: list[dict[str, str | int]] = []
    if nvcc:
        (folder / "cuda.cu").write_text(f'#include "{header}"\n')
        objects.append(str(folder / "cuda.o"))
        code = [part for each in ARCHITECTURES for part in ("-gencode", each)]
        host = ["-Xcompiler=-fPIC,-fvisibility=hidden,-fvisibility-inlines-hidden,-ffp-contract=off"]
        said = run(
            header, nvcc, *SHARED, *DEVICE, *code, *host, "-ccbin", cxx, "-DNANET_PLUGIN_CUDA", include,
            "-Xptxas=-v", "-c", f"{folder}/cuda.cu", "-o", objects[1],
        )  # fmt: skip
        kernels = kernels_of(said)
        libraries = [str(static_runtime(Path(nvcc))), "-ldl", "-lrt", "-lpthread"]
    # Only these symbols are visible to other shared objects of the process. This hides a statically linked
    # C++ library too.
    (folder / "exports.map").write_text("{ global: nanet_algorithm; nanet_algorithm_needs; local: *; };\n")
    shown = ["-Wl,--exclude-libs,ALL", f"-Wl,--version-script={folder}/exports.map"]
    run(header, cxx, "-shared", *objects, *libraries, *shown, "-o", str(target))
    return target, kernels


def check_registered(header: str, plugin: Path) -> None:
    """UsageError for a plug-in without the function that NANET_ALGORITHM defines."""
    if b"\0nanet_algorithm\0" not in plugin.read_bytes():
        raise UsageError(f"{header}: registers no algorithm: end it with NANET_ALGORITHM(Struct)")


def kernels_of(said: str) -> list[dict[str, str | int]]:
    """Resources of each kernel from `ptxas -v`.

    Keys: kernel, architecture, registers per thread, spilled_bytes and shared memory (bytes).
    """
    kernels: list[dict[str, str | int]] = []
    for part in said.split("Compiling entry function ")[1:]:
        head = re.match(r"'(\w+)' for '(\w+)'", part)
        registers = re.search(r"Used (\d+) registers", part)
        if not head or not registers:
            continue
        spilled = re.search(r"(\d+) bytes spill stores", part)
        shared = re.search(r"(\d+) bytes smem", part)
        kernels.append(
            {
                "kernel": innermost_name(head[1]),
                "architecture": head[2],
                "registers": int(registers[1]),
                "spilled_bytes": int(spilled[1]) if spilled else 0,
                "shared_bytes": int(shared[1]) if shared else 0,
            }
        )
    return kernels


def innermost_name(mangled: str) -> str:
    """Last of the nested names of a mangled C++ symbol: _ZN5nanet4loop4onceI… gives once."""
    name, rest = mangled, mangled.removeprefix("_ZN")
    while found := re.match(r"\d+", rest):
        end = found.end() + int(found[0])
        name, rest = rest[found.end() : end], rest[end:]
    return name


def static_runtime(nvcc: Path) -> Path:
    """CUDA's static runtime library that belongs to an nvcc of the system or of PyPI."""
    root = nvcc.resolve().parent.parent
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
        if (found := root / folder / "libcudart_static.a").is_file():
            return found
    raise UsageError(f"{nvcc}: libcudart_static.a is missing; install the CUDA runtime's development files")


def run(header: Path, *command: str) -> str:
    """Runs a compiler. Its messages go to standard error; the requested resource report is returned."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    kept = done.stdout.splitlines(keepends=True)
    resources = re.compile(r"ptxas info|^    \d+ bytes stack frame")
    sys.stderr.writelines(line for line in kept if not resources.search(line))
    if done.returncode:
        compiler = Path(command[0]).name
        if compiler == "nvcc" and HOST_CALL in done.stdout:
            raise UsageError(
                f"{header}: a function for the GPU lacks NANET_HD, or calls one without it, see above; "
                "--cuda off builds for CPUs only"
            )
        raise UsageError(f"{header}: {compiler} refuses it, see above")
    return done.stdout

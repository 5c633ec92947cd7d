"""
The commands of UPMEM's SDK, for Makefiles.

`python -m inr.runtime.upmem_commands clang ...` takes the arguments of `dpu-upmem-dpurte-clang`,
`... pkg-config ...` those of `dpu-pkg-config`. `upmem/bin` has wrappers with these names.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import CompileError
from .upmem_build import STACK_DEFAULT, DeviceOptions, device_object, device_program, host_flags


def parse_device_arguments(arguments: Sequence[str]) -> tuple[DeviceOptions, list[str], str, bool]:
    """
    The SDK compiler's arguments as (options, sources and objects, output, whether only to
    compile). What chooses a machine or a linker is dropped: there is one.
    """
    values: dict[str, int] = {}
    flags: list[str] = []
    inputs: list[str] = []
    output, only = "a.out", False
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument in ("-D", "-I", "-include", "-isystem", "-U", "-x", "-idirafter") and rest:
            argument = f"{argument}{'' if argument in ('-D', '-I', '-U') else ' '}{rest.pop(0)}"
        if argument == "-o" and rest:
            output = rest.pop(0)
        elif argument == "-c":
            only = True
        elif match := re.fullmatch(
            r"-D(NR_TASKLETS|STACK_SIZE_DEFAULT|STACK_SIZE_TASKLET_\d+)=(\w+)", argument
        ):
            try:
                values[match[1]] = int(match[2], 0)
            except ValueError:
                raise CompileError(f"{argument}: {match[1]} must be a number") from None
        elif argument.startswith(("-flto", "-fuse-ld", "-mcpu", "--target", "-l", "-L", "-Wl,")):
            continue
        elif argument.startswith("-"):
            flags += argument.split(" ", 1)
        else:
            inputs.append(argument)
    if not inputs:
        raise CompileError("no source file is given")
    options = DeviceOptions(
        tasklets=values.get("NR_TASKLETS", 1),
        stack=values.get("STACK_SIZE_DEFAULT", STACK_DEFAULT),
        stacks={
            int(name.rsplit("_", 1)[1]): size
            for name, size in values.items()
            if name.startswith("STACK_SIZE_TASKLET_")
        },
        flags=tuple(flags),
        target=os.environ.get("INR_DPU_TARGET", "v1A"),
    )
    return options, inputs, output, only


def clang_command(arguments: Sequence[str]) -> None:
    """What `dpu-upmem-dpurte-clang` does: compiles, or compiles and links, to the output."""
    options, inputs, output, only = parse_device_arguments(arguments)
    if not only:
        shutil.copy2(device_program(inputs, options), output)
        return
    for source in inputs:
        target = output if output != "a.out" else f"{Path(source).stem}.o"
        sys.stderr.write(device_object(source, target, options))


def pkg_config_command(arguments: Sequence[str]) -> None:
    """What `dpu-pkg-config --cflags --libs dpu` prints."""
    cflags, libs = "--cflags" in arguments, any(a.startswith("--libs") for a in arguments)
    flags = host_flags(compile_only=not libs, link_only=not cflags)
    print(" ".join(flags if cflags or libs else []))


def main() -> int:
    """Runs one of the commands; status 1 with a message where it fails."""
    commands = {"clang": clang_command, "pkg-config": pkg_config_command}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        print(
            f"usage: python -m inr.runtime.upmem_commands {'|'.join(commands)} ...", file=sys.stderr
        )
        return 2
    try:
        commands[sys.argv[1]](sys.argv[2:])
    except CompileError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

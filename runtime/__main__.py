"""`python -m inr.runtime --include-dir | --sim-dir | ...`: paths for Makefiles."""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files

from .toolchain import ap_types


def main() -> int:
    """Print the folder asked for; status 1 where it is not on this machine."""
    parser = argparse.ArgumentParser(prog="python -m inr.runtime", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--include-dir", action="store_true", help="the kernels' headers")
    which.add_argument("--sim-dir", action="store_true", help="the simulation runtime's headers")
    which.add_argument("--ap-types", action="store_true", help="the folder of ap_fixed.h")
    which.add_argument("--dpu-bin-dir", action="store_true", help="the UPMEM SDK's commands")
    which.add_argument("--dpu-include-dir", action="store_true", help="the UPMEM host headers")
    which.add_argument("--dpu-device-dir", action="store_true", help="the UPMEM device headers")
    arguments = parser.parse_args()
    if arguments.ap_types:
        folder = ap_types()
        if folder is None:
            print("no ap_fixed.h: pip install 'inr-opt[csim]'", file=sys.stderr)
            return 1
        print(folder)
        return 0
    folders = {
        "bin": arguments.dpu_bin_dir,
        "host": arguments.dpu_include_dir,
        "device/include": arguments.dpu_device_dir,
    }
    for folder, asked in folders.items():
        if asked:
            print(files("inr.runtime") / "upmem" / folder)
            return 0
    print(files("inr.runtime") / "hls" / ("include" if arguments.include_dir else "sim"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""
Configuration of the file tests.

Tools come from the environment whose Python runs lit, so `lit tests/lit` tests the checkout it
is installed from and nothing that happens to come first on PATH.
"""
# lit runs this file with `config` and `lit_config` defined.
# ruff: noqa: F821

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec

import lit.formats

config.name = "inr-opt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.excludes = ["Inputs"]

_tools = os.path.dirname(sys.executable)
config.environment["PATH"] = os.pathsep.join([_tools, os.environ.get("PATH", "")])
for _name in ("CXX", "HOME", "INR_AP_TYPES", "INR_CACHE", "XDG_CACHE_HOME"):
    if _name in os.environ:
        config.environment[_name] = os.environ[_name]

# The second run of each reads what the first one printed.
config.substitutions += [
    ("INR_ROUNDTRIP", "inr-opt %s | inr-opt | filecheck %s"),
    ("INR_GENERIC_ROUNDTRIP", "inr-opt --print-op-generic %s | inr-opt | filecheck %s"),
]

if shutil.which(os.environ.get("CXX", "g++"), path=config.environment["PATH"]):
    config.available_features.add("g++")
if shutil.which("xdsl-opt", path=config.environment["PATH"]):
    config.available_features.add("xdsl-opt")
if find_spec("torch_mlir"):
    config.available_features.add("torch-mlir")

if find_spec("psutil"):
    # Of a minute most tests use seconds; a busy machine may take several times as long.
    config.maxIndividualTestTime = 240

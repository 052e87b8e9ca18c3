"""Runs one target over the instrumented kernel: ``python -m fuzz.one_target MODULE TARGET [libFuzzer's arguments]``."""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any


def _load(name: str, path: str) -> Any:
    """Load one of the modules in the file, under its name."""
    loader = ExtensionFileLoader(name, path)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)
    loader.exec_module(module)
    return module


def main(path: str, name: str, *arguments: str) -> int:
    """Drive the target; gives libFuzzer's exit code."""
    kernel = _load("metricsbridge.series._kernels", path)  # before the library looks for its own
    driver = _load("driver", path)
    from metricsbridge.series import _kernel

    assert _kernel.COMPILED is kernel, _kernel.ENGINE
    from fuzz.targets import TARGETS

    code: int = driver.drive([name.encode(), *map(str.encode, arguments)], TARGETS[name])
    return code


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

"""Programs that tests need and Debian has."""

import os
import shutil
import subprocess

import pytest


def install(what: str, *packages: str) -> None:
    """Install Debian's packages if that is allowed and possible; otherwise skip."""
    missing = f"{what} is not installed"
    if os.environ.get("BAYESMDP_TEST_APT") != "1":
        pytest.skip(f"{missing}, and BAYESMDP_TEST_APT is not 1")
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        pytest.skip(f"{missing}, and only root on Debian can install it")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", *packages]):
        apt = ["apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300", *words]
        done = subprocess.run(apt, env=quiet, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            pytest.skip(f"{missing}, and apt-get {words[0]} failed: {' '.join(said)}")

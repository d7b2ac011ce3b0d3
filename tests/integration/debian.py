"""Programs that tests need and Debian has."""

import os
import subprocess

import pytest


def install(what: str, *packages: str) -> None:
    """Install Debian's packages if that is allowed; otherwise skip."""
    if os.environ.get("BAYESMDP_TEST_APT") != "1":
        pytest.skip(f"{what} is not installed, and BAYESMDP_TEST_APT is not 1")
    apt = ["apt-get", "-qq", "-y"]
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apt, "update"], check=True, env=quiet)
    subprocess.run([*apt, "install", *packages], check=True, env=quiet)

"""Devices that are made when somebody asks for them, and import what they need then."""

from bayesmdp.engine._backend import Backend


def make_gpu() -> Backend:
    """Return the GPU; say in a sentence where there is none, before any work."""
    from bayesmdp.engine._gpu import GPU

    gpu_name()
    return GPU()


def make_auto() -> Backend:
    """Return what chooses a device."""
    from bayesmdp.engine._auto import Auto

    return Auto()


def gpu_name() -> str:
    """Return what the GPU is called; say in a sentence where there is none."""
    from bayesmdp.engine._gpu_device import first_device

    return first_device().name

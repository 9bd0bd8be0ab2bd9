"""Kernels on an NVIDIA GPU: compile, launch, time. Nothing here needs a device to be imported."""

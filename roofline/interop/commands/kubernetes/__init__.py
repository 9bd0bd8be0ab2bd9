"""Kubernetes: manifests are written and read. `facts` has their fields and where they are from."""

from roofline.interop.commands.kubernetes.facts import ENGINES, NAME
from roofline.interop.commands.kubernetes.reading import is_manifest, read
from roofline.interop.commands.kubernetes.writing import label, write

__all__ = ["ENGINES", "NAME", "is_manifest", "label", "read", "write"]

# SPDX-License-Identifier: Apache-2.0
"""one_layer.py PROGRAM NAME FILE: an image archive, as `docker save` writes it, with one static program."""

import hashlib
import io
import json
import os
import sys
import tarfile


def add(archive, name, data, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


program, name, target = sys.argv[1:]
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as archive, open(program, "rb") as file:
    add(archive, os.path.basename(program), file.read(), 0o755)
layer = layer.getvalue()
machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
config = json.dumps({"architecture": machine, "os": "linux", "config": {"Entrypoint": ["/" + os.path.basename(program)]},
                     "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
with tarfile.open(target, "w") as archive:
    add(archive, "layer.tar", layer)
    add(archive, "config.json", config)
    add(archive, "manifest.json", json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode())

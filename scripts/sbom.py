#!/usr/bin/env python3
"""Writes rota.spdx.json: what the packages in a folder are made of (SPDX 2.3), with the versions that pkg-config says,
and the packages' own checksums. sbom.py ROOT FOLDER"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

# pkg-config's name, the licence as SPDX has it, what of rota is linked with it.
LINKED = (("hwloc", "BSD-3-Clause", "librota"), ("openblas", "BSD-3-Clause", "librota"),
          ("ck", "BSD-2-Clause AND Apache-2.0", "librota"), ("libcbor", "MIT", "librota"),
          ("vulkan", "Apache-2.0", "librota"),
          ("libcjson", "MIT", "rota-tools"), ("libpcre2-8", "BSD-3-Clause", "rota-tools"))

# Which MPI there is, and its licence.
MPI = {"openmpi": "BSD-3-Clause-Open-MPI", "mpich": "mpich2"}


def version_of(library):
    """As it is on this machine."""
    return subprocess.run(["pkg-config", "--modversion", library], check=True, capture_output=True,
                          text=True).stdout.strip()


def package(name, version, licence, **more):
    """One package of the document."""
    return {"SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": licence,
            "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}


def mpi_of(folder):
    """The MPI that the package for it asks for: Debian's name and least version."""
    for path in folder.glob("librota-mpi1_*.deb"):
        needs = subprocess.run(["dpkg-deb", "-f", path, "Depends"], check=True, capture_output=True, text=True).stdout
        yield from re.findall(rf"(lib(?:{'|'.join(MPI)})\d+) \(>= ([^)]+)\)", needs)


def document(root, folder):
    """The whole document, as JSON has it."""
    header = (root / "base/export.h").read_text()
    version = ".".join(re.search(rf"ROTA_VERSION_{part} (\d+)", header).group(1)
                       for part in ("MAJOR", "MINOR", "PATCH"))
    rota = package("rota", version, "MIT", supplier="Organization: The rota authors")
    packages, relations = [rota], [("SPDXRef-DOCUMENT", "DESCRIBES", rota["SPDXID"])]
    graph_files = "-lcbor" in (folder.parent / "rota.pc").read_text()
    for name, licence, by in LINKED:
        if name == "libcbor" and not graph_files:
            continue
        library = package(name, version_of(name), licence)
        library["comment"] = f"linked dynamically by {by}"
        packages.append(library)
        relations.append((rota["SPDXID"], "DYNAMIC_LINK", library["SPDXID"]))
    for name, version in mpi_of(folder):
        library = package(name, version, MPI[re.sub(r"^lib|\d+$", "", name)])
        library["comment"] = "linked dynamically by librota-mpi1, which asks for this version or a later one"
        packages.append(library)
        relations.append((rota["SPDXID"], "DYNAMIC_LINK", library["SPDXID"]))
    nvtx = package("NVTX", "3", "Apache-2.0 WITH LLVM-exception")
    nvtx["comment"] = "its headers are compiled into librota where CUDA's are there"
    packages.append(nvtx)
    relations.append((rota["SPDXID"], "STATIC_LINK", nvtx["SPDXID"]))
    for path in sorted(folder.glob("*.deb")) + sorted(folder.glob("*.tar.gz")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        made = package(path.name, version, "MIT", packageFileName=path.name,
                       checksums=[{"algorithm": "SHA256", "checksumValue": digest}])
        packages.append(made)
        relations.append((made["SPDXID"], "GENERATED_FROM", rota["SPDXID"]))
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), datetime.timezone.utc)
    content = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"rota-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/rota-{version}-{content[:32]}",
            "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: rota-sbom"]},
            "packages": packages,
            "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                              for a, kind, b in relations]}


def main():
    """Writes it."""
    root, folder = (pathlib.Path(argument) for argument in sys.argv[1:3])
    (folder / "rota.spdx.json").write_text(json.dumps(document(root, folder), indent=2) + "\n")


main()

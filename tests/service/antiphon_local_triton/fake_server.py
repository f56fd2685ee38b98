"""A fake tritonserver: `python fake_server.py BEHAVIOUR FOLDER`. It starts a child unless its start fails. With
`dies-once` the first server exits as soon as the folder has a file `die`.

One that `dies-once` does so as soon as its folder has a file `die`.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path


def main(behaviour: str, folder: Path) -> None:
    starts = folder / "starts"
    count = len(starts.read_text()) if starts.exists() else 0
    starts.write_text("x" * (count + 1))
    if behaviour == "fails":
        print("E failed to load 'tensorrt_llm' version 1: Internal: no such file\\n\\nAt:")
        print("error: creating server: Internal - failed to load all models")
        sys.exit(1)
    if behaviour == "cannot-listen":
        print("error: the port is taken")
        sys.exit(1)
    if behaviour == "ignores-sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
    (folder / "child").write_text(str(child.pid))
    if behaviour != "never-ready":
        (folder / "ready").touch()
    if behaviour == "dies-once" and count == 0:
        while not (folder / "die").exists():
            time.sleep(0.01)
        (folder / "ready").unlink()
        sys.exit(3)
    time.sleep(1000)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

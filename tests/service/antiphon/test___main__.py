from __future__ import annotations

import subprocess
import sys


def test_a_missing_package_is_named_with_its_install_command() -> None:
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'aiohttp':\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from antiphon.__main__ import main\n"
        "sys.argv = ['antiphon', 'serve', '--target=edge', '--edge-store=h:1', '--edge-translator=h:2']\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "antiphon: the package 'aiohttp' is missing: pip install 'antiphon'\n"

from __future__ import annotations

import subprocess
import sys


def test_the_store_client_needs_only_the_base_install() -> None:
    program = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'aiohttp', 'pydantic', 'jinja2', 'jsonschema_rs', 'tokenizers',\n"
        "                                  'tritonclient', 'antiphon_edge', 'antiphon_translator', 'antiphon'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import antiphon_store.client\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Where a module's tests are: at the same path under tests/unit. Exceptions stand in a table, with their reason."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = {
    "antiphon_core": ROOT / "libs",
    "antiphon_store": ROOT / "services/store",
    "antiphon_translator": ROOT / "services/translator",
    "antiphon_edge": ROOT / "services/edge",
    "antiphon": ROOT / "services/allinone",
}
# module -> (the tests that cover it, why they are not at the mirrored path)
ELSEWHERE = {
    "antiphon_core/limits.py": (
        "tests/unit/repo/test_limits.py",
        "constants: tested where used, here their form",
    ),
    "antiphon_core/ports/store.py": ("tests/contract/store", "a protocol: every implementation runs its suite"),
    "antiphon_core/ports/translator.py": ("tests/contract/translator", "a protocol: local and remote run its suite"),
    "antiphon_store/backends/base.py": ("tests/contract/store", "a protocol: every backend runs the kit"),
    "antiphon_translator/engines/base.py": ("tests/contract/engine", "a protocol: every engine runs its suite"),
    "antiphon/local/errors.py": ("tests/unit/antiphon/local", "one class without behaviour"),
}
# test module -> what it tests, which is no module of a package
FOREIGN = {
    "antiphon/local/test_sequences.py": "model_repository/tensorrt_llm/1/sequences.py, loaded by Triton alone",
    "antiphon/local/test_chatml.py": "chatml.jinja",
}


def source_modules() -> list[str]:
    found = []
    for package, root in SOURCES.items():
        for path in (root / package).rglob("*.py"):
            relative = path.relative_to(root).as_posix()
            inside_triton = "model_repository" in path.parts
            kit = "testing" in path.parts  # the conformance kit is itself tests
            if path.name != "__init__.py" and not inside_triton and not kit:
                found.append(relative)
    return sorted(found)


def mirrored(module: str) -> Path:
    folder, _, name = module.rpartition("/")
    return ROOT / "tests/unit" / folder / f"test_{name}"


def test_every_module_has_its_own_test_module() -> None:
    missing = [m for m in source_modules() if m not in ELSEWHERE and not mirrored(m).exists()]
    assert not missing, "no test module for: " + ", ".join(missing)


def test_every_test_module_mirrors_a_module() -> None:
    sources = set(source_modules())
    for path in (ROOT / "tests/unit").rglob("test_*.py"):
        relative = path.relative_to(ROOT / "tests/unit")
        if relative.parts[0] == "repo" or relative.as_posix() in FOREIGN:
            continue
        source = (relative.parent / path.name.removeprefix("test_")).as_posix()
        assert source in sources, f"{relative} mirrors no module"


def test_exceptions_are_real() -> None:
    sources = set(source_modules())
    for module, (tests, _reason) in ELSEWHERE.items():
        assert module in sources, module
        assert (ROOT / tests).exists(), tests

#!/usr/bin/env python3
"""Checks the walls between the folders: reads every #include and the DEPENDS lists of CMakeLists.txt. Exit: 0 clean, 1 not.

usage: check_layers.py [ROOT]        the repository; its own tests: check_layers.py --self-test

1. A folder of mobius/ includes itself and what its DEPENDS names, directly or not.
2. nn, components and models never see rewrite, formats or the EP table; of ep/ only what is plain data.
3. rules never see nn or models.
4. A model, rule or task file is included by nobody outside its folder, but for the headers in DOORS.
5. A heavy library is included where HEAVY says and nowhere else: it stays cheap to compile, and can be replaced.
6. No source file has more than 600 lines.
Unit tests (*_test.cpp, *_test.hpp) and cli/ may look into every folder; 4 to 6 hold for them too.
"""
import re
import sys
import tempfile
from pathlib import Path

MOST_LINES = 600
SOURCES = (".cpp", ".hpp")
FOLDERS = ("mobius", "cli", "python", "tests", "bench", "examples", "scripts")

# Wall 2: what is left of ep/ for those who describe models.
PLAIN_DATA_OF_EP = {"mobius/ep/context.hpp", "mobius/ep/capabilities.hpp"}
DESCRIBE_MODELS = {"nn", "components", "models"}
NEVER = {**dict.fromkeys(DESCRIBE_MODELS, {"rewrite", "formats"}), "rules": {"nn", "models"}}

# Wall 4: the headers through which others reach models, rules and tasks: what they have in common, never one of them.
# "tasks" as a whole is open to models.
CLOSED = {"models", "rules", "tasks"}
DOORS = {"mobius/models/family.hpp", "mobius/rules/rules.hpp", "mobius/tasks/component.hpp"}

# Wall 5: header (a prefix) -> the files (prefixes) that may include it.
HEAVY = {
    "nlohmann/": ("mobius/base/json.cpp",),
    "protozero/": ("mobius/formats/",),
    "CLI/": ("cli/",),
    "hwy/": ("mobius/base/",),
    "curl/": ("mobius/hub/",),
    "pybind11/": ("python/",),
    "benchmark/": ("bench/",),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
DEPENDS = re.compile(r"^\s*mobius_folder\(\s*(\w+)(?:\s+HOT)?(?:\s+DEPENDS\s+([\w\s]+?))?\s*\)", re.MULTILINE)


def allowed_folders(cmake: str) -> dict[str, set[str]]:
    """Each folder with all that it may include: the DEPENDS lists, followed to their ends."""
    direct = {name: set(depends.split()) for name, depends in DEPENDS.findall(cmake)}
    reach: dict[str, set[str]] = {}

    def follow(name: str) -> set[str]:
        if name not in reach:
            reach[name] = {name}
            for lower in direct.get(name, ()):
                reach[name] |= follow(lower)
        return reach[name]

    for name in direct:
        follow(name)
    return reach


def folder_of(path: str) -> str | None:
    """ "mobius/ir/graph.hpp" -> "ir"; None for what is not in a folder of mobius/."""
    parts = path.split("/")
    return parts[1] if parts[0] == "mobius" and len(parts) > 2 else None


def check_mobius_include(file: str, header: str, allowed: dict[str, set[str]]) -> str | None:
    """What is wrong with one file including one header of mobius/, or None."""
    here, there = folder_of(file), folder_of(header)
    if there is None:
        return None if header.startswith("mobius/") and header.count("/") == 1 else "is not in a folder of mobius/"
    if here == there:
        return None
    if there in CLOSED and header not in DOORS and not (there == "tasks" and here == "models"):
        return f"a file of {there}/ is seen from its own folder only"
    if here is None or file.endswith(("_test.cpp", "_test.hpp")):
        return None
    if there in NEVER.get(here, ()):
        return f"{here}/ never sees {there}/"
    if here in DESCRIBE_MODELS and there == "ep" and header not in PLAIN_DATA_OF_EP:
        return f"of ep/, {here}/ sees only {', '.join(sorted(PLAIN_DATA_OF_EP))}"
    if here not in allowed:
        return f"mobius/{here} is not a mobius_folder of CMakeLists.txt"
    if there not in allowed[here]:
        return f"{here}/ does not depend on {there}/ (CMakeLists.txt)"
    return None


def check_heavy(file: str, header: str) -> str | None:
    for library, homes in HEAVY.items():
        if header.startswith(library) and not file.startswith(homes):
            return f"{library} belongs in {', '.join(homes)}"
    return None


def check(root: Path) -> list[str]:
    """All complaints, as "file:line: includes header: reason"."""
    allowed = allowed_folders((root / "CMakeLists.txt").read_text())
    complaints = []
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in (*SOURCES, ".py") and p.is_file()):
        file, text = path.relative_to(root).as_posix(), path.read_text(errors="replace")
        if (lines := text.count("\n")) > MOST_LINES:
            complaints.append(f"{file}: has {lines} lines, at most {MOST_LINES} are allowed: split it where its domain splits")
        if path.suffix not in SOURCES:
            continue
        for include in INCLUDE.finditer(text):
            header = include[1]
            reason = check_mobius_include(file, header, allowed) if header.startswith("mobius/") else check_heavy(file, header)
            if reason:
                line = text.count("\n", 0, include.start(1)) + 1
                complaints.append(f"{file}:{line}: includes {header}: {reason}")
    return complaints


def self_test() -> list[str]:
    """Lays out small trees with one fault each, and tells which faults are not found."""
    cmake = "mobius_folder(base HOT)\nmobius_folder(ir HOT DEPENDS base)\nmobius_folder(ops DEPENDS ir)\nmobius_folder(ep DEPENDS ir)\n" \
            "mobius_folder(nn DEPENDS ops ep)\nmobius_folder(tasks DEPENDS nn)\nmobius_folder(models DEPENDS tasks)\n" \
            "mobius_folder(formats DEPENDS ir)\nmobius_folder(rewrite DEPENDS ops ep nn)\nmobius_folder(rules DEPENDS rewrite)\n"
    good = [("mobius/ops/a.cpp", "mobius/base/error.hpp"), ("mobius/nn/a.cpp", "mobius/ep/context.hpp"), ("mobius/models/a.cpp", "mobius/tasks/a.hpp"),
            ("mobius/ir/a_test.cpp", "mobius/formats/a.hpp"), ("cli/a.cpp", "mobius/formats/a.hpp"), ("mobius/formats/a.cpp", "protozero/pbf_reader.hpp"),
            ("mobius/rules/a.cpp", "mobius/rules/b.hpp"), ("mobius/base/json.cpp", "nlohmann/json.hpp"),
            ("cli/a.cpp", "mobius/models/family.hpp")]
    bad = [("mobius/ir/a.cpp", "mobius/ops/a.hpp"), ("mobius/base/a.hpp", "mobius/ir/a.hpp"), ("mobius/nn/a.cpp", "mobius/ep/registry.hpp"),
           ("mobius/models/a.cpp", "mobius/formats/a.hpp"), ("mobius/models/a.cpp", "mobius/rewrite/a.hpp"), ("mobius/rules/a.cpp", "mobius/nn/a.hpp"),
           ("cli/a.cpp", "mobius/models/a.hpp"), ("mobius/formats/a.cpp", "mobius/tasks/a.hpp"), ("mobius/rewrite/a_test.cpp", "mobius/rules/a.hpp"),
           ("mobius/nowhere/a.cpp", "mobius/ir/a.hpp"), ("mobius/base/json.hpp", "nlohmann/json.hpp"), ("mobius/ir/a.cpp", "hwy/highway.h"),
           ("mobius/ir/a_test.cpp", "CLI/CLI.hpp")]

    wrong = []
    for expected, includes in ((0, good), (1, bad)):
        for file, header in includes:
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                (root / "CMakeLists.txt").write_text(cmake)
                (root / file).parent.mkdir(parents=True)
                (root / file).write_text(f'// A file.\n#include "{header}"\n')
                found = check(root)
            if len(found) != expected:
                wrong.append(f"{file} includes {header}: expected {expected} complaints, found {found}")
            elif expected and not found[0].startswith(f"{file}:2: includes {header}: "):
                wrong.append(f"{file} includes {header}: misplaced: {found[0]}")

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "CMakeLists.txt").write_text(cmake)
        (root / "mobius/ir").mkdir(parents=True)
        (root / "mobius/ir/long.cpp").write_text("//\n" * (MOST_LINES + 1))
        (root / "mobius/ir/enough.cpp").write_text("//\n" * MOST_LINES)
        if len(found := check(root)) != 1 or not found[0].startswith("mobius/ir/long.cpp: "):
            wrong.append(f"a file of {MOST_LINES + 1} lines: found {found}")
    return wrong


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        complaints = self_test()
    else:
        complaints = check(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

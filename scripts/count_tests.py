#!/usr/bin/env python3
"""Adds up the reports of one test run and prints "N passed, N failed" as its last line; the exit code is 1 when something failed.

usage: count_tests.py REPORTS

REPORTS holds ctest.xml (one entry per test program) and, per program, NAME.xml with its cases (GoogleTest and pytest write
those). A program that failed without a failed case in its report (it crashed, say) counts as one failure.
"""
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def cases(report: Path) -> tuple[int, list[str], int]:
    """Passed, names of the failed, skipped."""
    passed, failed, skipped = 0, [], 0
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return 0, [], 0
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}.{case.get('name')}")
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main() -> int:
    reports = Path(sys.argv[1])
    try:
        programs = list(ElementTree.parse(reports / "ctest.xml").getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        print(f"no report of the test run: {error}\n0 passed, 1 failed")
        return 1

    passed, failed, skipped = 0, [], 0
    for program in programs:
        name = program.get("name")
        ran = next((r for r in (reports / f"{name}_test.xml", reports / f"{name}.xml") if r.exists()), None)
        p, f, s = cases(ran) if ran else (0, [], 0)
        if program.get("status") != "run" and not f:
            f = [name]
        elif program.get("status") == "run" and not ran:
            p = 1
        passed, failed, skipped = passed + p, failed + [f"{name}: {case}" for case in f], skipped + s

    for name in failed:
        print("FAILED", name)
    print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

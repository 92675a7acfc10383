#!/usr/bin/env python3
"""Generates text with a built package in ONNX Runtime, greedily, with its cache and its own tokenizer.

usage: demo_generate.py PACKAGE [--expect FILE] [--tokens N] [PROMPT...]

FILE is JSON: cases with prompt, input_ids, greedy ids, text, and the five largest logits of the first new token. Its prompts
are used, and every difference is told: ids must be equal, logits within 0.002. Exit: 0 all as expected, 1 not.
"""
import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import golden_check  # noqa: E402

LOGIT_ERROR = 0.002


def differences(case: dict, prompt_ids: list[int], new_ids: list[int], text: str, first_logits: np.ndarray) -> list[str]:
    found = []
    for what, got, want in [("input ids", prompt_ids, case["input_ids"]), ("generated ids", new_ids, case["greedy"]), ("text", text, case["text"])]:
        if got != want:
            found.append(f"{what}: got {got!r}, expected {want!r}")
    top = np.argsort(-first_logits, kind="stable")[:5].tolist()
    if top != case["top5"]["ids"]:
        found.append(f"largest logits: got ids {top}, expected {case['top5']['ids']}")
    worst = np.abs(first_logits[case["top5"]["ids"]] - np.array(case["top5"]["logits"])).max()
    if not worst <= LOGIT_ERROR:
        found.append(f"largest logits: differ by {worst:.4f}, allowed {LOGIT_ERROR}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("prompts", nargs="*", metavar="PROMPT")
    parser.add_argument("--expect", type=Path, metavar="FILE")
    parser.add_argument("--tokens", type=int, default=24, metavar="N")
    options = parser.parse_args()

    expected = json.loads(options.expect.read_text())["cases"] if options.expect else [None] * len(options.prompts)
    prompts = [case["prompt"] for case in expected] if options.expect else options.prompts
    if not prompts:
        parser.error("give prompts, or --expect FILE")

    tokenizer = Tokenizer.from_file(str(options.package / "tokenizer.json"))
    start = time.monotonic()
    graph = golden_check.load(options.package, "model", "onnxruntime", threads=0)
    print(f"{options.package} loaded in ONNX Runtime in {time.monotonic() - start:.1f} s")

    wrong = 0
    for case, prompt in zip(expected, prompts):
        prompt_ids = tokenizer.encode(prompt).ids
        logits: list[np.ndarray] = []
        start = time.monotonic()
        new_ids = golden_check.generate(graph, prompt_ids, len(case["greedy"]) if case else options.tokens, on_logits=logits.append)
        seconds = time.monotonic() - start
        text = tokenizer.decode(new_ids)
        print(f"\n> {prompt.strip()}\n{text.rstrip()}\n  [{len(new_ids)} tokens, {len(new_ids) / seconds:.0f} per second]")
        for difference in differences(case, prompt_ids, new_ids, text, logits[0]) if case else []:
            print("  NOT AS EXPECTED:", difference)
            wrong += 1
    if options.expect:
        print("\n" + ("not as expected" if wrong else f"All {len(prompts)} prompts give the expected ids, and logits within {LOGIT_ERROR}."))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

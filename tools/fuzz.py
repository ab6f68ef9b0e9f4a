"""Fuzzing: hostile bytes for everything that reads what people write, steered by coverage.

    python -m tools.fuzz [TARGET ...] [--minutes 10] [--json FILE]

`tools.fuzz_targets` says what is attacked and what must hold. Atheris (libFuzzer) changes the
inputs of a corpus at random and keeps those that reach new code. What it keeps is added to
`tests/corpus/`, a file for each target with an input on each line, which `make test` replays.
An input that breaks a promise is added, too, so that `make test` fails until the code is fixed.
The command then ends with exit code 1.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from calcgpt.base.errors import unknown_name
from calcgpt.base.files import read_json, write_json, write_text

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
MAX_INPUTS, MAX_BYTES = 150, 30_000  # of a corpus, so that it stays small and quick
MAX_LENGTH = 4_096  # of an input
SLOW_SECONDS = 20  # for one input: a defect
MEMORY_MIB = 4_096  # of the process: more is a defect
INSTRUMENTED = ["benchmarks", "calcgpt", "datagen", "tomllib"]
FUZZ = "import sys; from tools.fuzz import fuzz; fuzz(sys.argv)"


def read_corpus(name: str) -> list[bytes]:
    """Returns the corpus of a target."""
    path = CORPUS / f"{name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line).encode("latin-1") for line in path.read_text("ascii").splitlines()]


def write_corpus(name: str, inputs: list[bytes]) -> None:
    """Writes the corpus of a target: one JSON string per line, with a character for each byte."""
    CORPUS.mkdir(exist_ok=True)
    lines = [json.dumps(data.decode("latin-1")) + "\n" for data in inputs]
    write_text(CORPUS / f"{name}.jsonl", "".join(lines))


def fuzz(arguments: list[str]) -> None:
    """Runs libFuzzer on a target, and ends the process. `arguments` are the program, the target,
    and options of libFuzzer."""
    import atheris

    program, name, *options = arguments
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tools.fuzz_targets import TARGETS
    atheris.Setup([program, *options], TARGETS[name])
    atheris.Fuzz()


def run(name: str, minutes: float, seed: int) -> dict[str, Any]:
    """Fuzzes a target, adds to its corpus, and returns the statistics."""
    from tools.fuzz_targets import seeds, words

    corpus = read_corpus(name)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # nosec B108  # a folder of ours in it
    with tempfile.TemporaryDirectory(prefix="calcgpt-fuzz-", dir=memory) as scratch:
        folder, artifacts = Path(scratch) / "inputs", Path(scratch) / "artifacts"
        folder.mkdir()
        artifacts.mkdir()
        for data in [*corpus, *seeds(name)]:
            (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
        dictionary = Path(scratch) / "words"
        dictionary.write_text("".join(f"{_quoted(word)}\n" for word in words(name)))
        options = [
            f"-max_total_time={max(1, round(60 * minutes))}",
            f"-max_len={MAX_LENGTH}",
            f"-timeout={SLOW_SECONDS}",
            f"-rss_limit_mb={MEMORY_MIB}",
            f"-seed={seed}",
            f"-dict={dictionary}",
            f"-artifact_prefix={artifacts}/",
            "-print_final_stats=1",
        ]
        command = [sys.executable, "-c", FUZZ, name, *options, str(folder)]
        process = subprocess.run(  # nosec B603  # this Python
            command,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "TMPDIR": scratch},
        )
        broken = [file.read_bytes() for file in sorted(artifacts.iterdir())]
        kept = _choose(corpus, [file.read_bytes() for file in sorted(folder.iterdir())])
    log = process.stderr
    if broken or process.returncode:
        print(log[-4000:], file=sys.stderr)
        kept = [*corpus, *broken]
    write_corpus(name, kept)
    return {
        "executions": _last(r"stat::number_of_executed_units: +(\d+)", log),
        "edges_covered": _last(r"cov: (\d+)", log),
        "slowest_seconds": _last(r"stat::slowest_unit_time_sec: +(\d+)", log),
        "peak_mib": _last(r"stat::peak_rss_mb: +(\d+)", log),
        "corpus": len(kept),
        "ended": process.returncode,
        "broken": [data.decode("latin-1") for data in broken],
    }


def _choose(corpus: list[bytes], inputs: list[bytes]) -> list[bytes]:
    """Returns the inputs to keep: the corpus, and the shortest new inputs."""
    kept, n_bytes = list(corpus), sum(map(len, corpus))
    for data in sorted(set(inputs) - set(corpus), key=lambda data: (len(data), data)):
        n_bytes += len(data)
        if len(kept) >= MAX_INPUTS or n_bytes > MAX_BYTES:
            break
        kept.append(data)
    return kept


def _quoted(word: str) -> str:
    """Returns a word in the format of libFuzzer's dictionaries."""
    text = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in word.encode()
    )
    return f'"{text}"'


def _with_earlier(report: dict[str, Any], path: Path) -> dict[str, Any]:
    """Returns the report with further targets of a file, if its options are the same."""
    earlier = read_json(path) if path.exists() else {}
    same_options = all(earlier.get(name) == report[name] for name in ("tool", "minutes", "seed"))
    targets = {**(earlier["targets"] if same_options else {}), **report["targets"]}
    return {**report, "targets": targets}


def _last(pattern: str, log: str) -> int:
    return int(re.findall(pattern, log)[-1]) if re.search(pattern, log) else 0


def main() -> None:
    from tools.fuzz_targets import TARGETS

    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    options.add_argument("--minutes", type=float, default=10.0, help="for each target")
    options.add_argument(
        "--seed", type=int, default=1, help="seed of the changes; 0: a new one each time"
    )
    options.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = options.parse_args()
    names = arguments.targets or list(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        options.error(unknown_name("target", min(unknown), TARGETS))
    try:
        tool = f"atheris {version('atheris')}"
    except ImportError:
        raise SystemExit("fuzzing needs atheris: pip install 'calcgpt[fuzz]'") from None

    results = {name: run(name, arguments.minutes, arguments.seed) for name in names}
    report = {
        "tool": tool,
        "minutes": arguments.minutes,
        "seed": arguments.seed,
        "targets": results,
    }
    print(json.dumps(report, indent=1))
    if arguments.json:
        write_json(arguments.json, _with_earlier(report, arguments.json))
    if any(result["ended"] for result in results.values()):
        raise SystemExit("an input violates a documented property: see above")


if __name__ == "__main__":
    main()

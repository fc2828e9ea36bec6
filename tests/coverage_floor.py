"""Fails when fewer lines of the source are covered than asked for: ``coverage_floor.py 90``."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    floor = float(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(report)]
        subprocess.run(command, check=True)
        totals = json.loads(report.read_text())["totals"]
    share = 100 * totals["covered_lines"] / totals["num_statements"]
    print(f"{share:.1f} % of the lines of src are covered (at least {floor:g} % are wanted)")
    return 0 if share >= floor else 1


if __name__ == "__main__":
    sys.exit(main())

"""Programs of tests as ranks, a process each."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = 2

# Open MPI, 4 and 5, as root, and with more ranks than cores.
MPIRUN = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def run_ranks(config: pytest.Config, program: str, *arguments: str) -> None:
    """Each rank's results go to a file of its own: mpirun may mix what its processes print, within lines, too."""
    folder: Path | None = config.getoption("--mpi-folder")
    mpirun = shutil.which("mpirun")
    if folder is None or mpirun is None:
        pytest.skip("no mpirun, or no rota for MPI")
    done = subprocess.run(
        [mpirun, "-n", str(RANKS), sys.executable, "-c", program, *arguments],
        env=os.environ | MPIRUN | {"LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr

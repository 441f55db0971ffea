"""Folders for temporary files: deleted at the end, by the next process after a kill, and never while in use."""

import signal
import subprocess
import sys
from pathlib import Path

from mslang.tune.scratch import scratch_folder

HOLDER = """
import sys, time
from pathlib import Path
from mslang.tune.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


def test_a_folder_goes_with_its_owner(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    held = Path(holder.stdout.readline().strip())
    assert held.is_dir()
    with scratch_folder(tmp_path) as own:
        assert held.is_dir() and Path(own).is_dir()
    assert not Path(own).exists()
    holder.send_signal(signal.SIGKILL)
    holder.wait(60)
    assert held.is_dir()
    with scratch_folder(tmp_path):
        assert not held.exists()
    assert list(tmp_path.iterdir()) == []

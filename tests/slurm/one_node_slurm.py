"""A SLURM of one node on the loopback interface, for as long as a `with` statement lasts.

It needs root and Debian's packages slurm-wlm and munge, which it installs. It has a key, ports and
a folder of its own, no accounting (hence no sacct) and no control groups: jobs are tracked by
/proc, and killed where they take more memory than they asked for, at which it looks every second.
While it runs /etc/slurm/slurm.conf is a link to its configuration: Snakemake's plugin starts the
steps of jobs without SLURM_CONF.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

PACKAGES = ("slurm-wlm", "munge")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo")
# Of memory, MiB: what the system keeps, and the most that a job of the demo asks for at first.
KEPT, LEAST = 1024, 4000
LINK = Path("/etc/slurm/slurm.conf")

CONFIGURATION = """\
ClusterName=fedatlas-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,bf_interval=5
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
KillWait=5
AccountingStorageType=accounting_storage/none
MinJobAge=300
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory={memory} State=UNKNOWN
SlurmdParameters=config_overrides
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Unavailable(Exception):
    """SLURM cannot be started here, for the reason given."""


def install() -> None:
    """Install the packages where they are missing.

    Raises:
        Unavailable: not root, no apt-get, or the packages cannot be had.
    """
    if os.getuid() != 0:
        raise Unavailable("SLURM's daemons need root")
    if all(shutil.which(program) for program in PROGRAMS):
        return
    if not shutil.which("apt-get"):
        raise Unavailable(f"{', '.join(PACKAGES)} are not installed, and there is no apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES],
    ):
        outcome = subprocess.run(command, env=environment, capture_output=True, text=True)
        if outcome.returncode:
            raise Unavailable(f"{' '.join(command)} failed: {outcome.stderr.strip()[-500:]}")


def available_memory() -> int:
    """Of this machine, MiB, less what the system keeps."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024 - KEPT
    raise Unavailable("/proc/meminfo does not say how much memory there is")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class OneNodeSlurm:
    """Runs while entered; `environment` is what its clients need.

    Raises:
        Unavailable: when it cannot be installed or does not come up; says why.
    """

    def __init__(self, folder: Path, processors: int | None = None) -> None:
        """processors: how many jobs run at once; this machine's by default."""
        self.folder = folder
        self.processors = processors or os.cpu_count()
        self.host = socket.gethostname().split(".")[0]
        self.daemons: list[tuple[str, subprocess.Popen[bytes]]] = []

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self) -> "OneNodeSlurm":
        if LINK.exists() or LINK.is_symlink():
            raise Unavailable(
                f"{LINK} exists: this machine has a SLURM, or an earlier check was killed; "
                "then remove it"
            )
        install()
        memory = available_memory()
        if memory < LEAST:
            raise Unavailable(f"jobs ask for {LEAST} MiB, and {memory} are there")
        # munged wants its folder closed to writers, and a key that only its owner reads.
        self.folder.mkdir(mode=0o755, parents=True)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(1024))
        controller_port, node_port = free_ports(2)
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                host=self.host,
                folder=self.folder,
                controller_port=controller_port,
                node_port=node_port,
                processors=self.processors,
                memory=memory,
            )
        )
        LINK.parent.mkdir(exist_ok=True)
        LINK.symlink_to(self.folder / "slurm.conf")
        try:
            files = [f"--{what}-file={self.folder}/munge.{what}" for what in ("key", "pid", "seed")]
            # --force: it otherwise refuses to run as root.
            self._start("munged", "--foreground", "--force", *files,
                        f"--socket={self.folder}/munge.socket",
                        f"--log-file={self.folder}/munged.log")  # fmt: skip
            self._wait("munged", lambda: (self.folder / "munge.socket").exists())
            self._start("slurmctld", "-D", "-c")
            self.return_node()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def ask(self, *command: str) -> str:
        """What a client of SLURM prints; nothing if it fails."""
        try:
            outcome = subprocess.run(
                command, env=self.environment, capture_output=True, text=True, timeout=30
            )
        except subprocess.TimeoutExpired:
            return ""
        return outcome.stdout if outcome.returncode == 0 else ""

    def fail_node(self) -> None:
        """Kill all that runs on the node, and tell the controller."""
        _, daemon = self.daemons.pop()
        # This machine has no other SLURM, or this one would not have been started.
        steps = [
            each for each in psutil.process_iter(["name"]) if each.info["name"] == "slurmstepd"
        ]
        for each in [daemon, *(job for step in steps for job in step.children(True)), *steps]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        daemon.wait()
        self.ask("scontrol", "update", f"NodeName={self.host}", "State=DOWN", "Reason=failed")

    def return_node(self) -> None:
        """Start the node's daemon, and wait until jobs can run on it."""
        self._start("slurmd", "-D")
        up = ("idle", "mixed", "allocated")
        self._wait("slurmd", lambda: self.ask("sinfo", "-ho", "%T").strip() in up)

    def _start(self, name: str, *options: str) -> None:
        program = shutil.which(name)
        assert program is not None
        with (self.folder / f"{name}.output").open("wb") as output:
            daemon = subprocess.Popen(
                [program, *options],
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.daemons.append((name, daemon))

    def _wait(self, name: str, ready, seconds: float = 60) -> None:
        """Until it is ready."""
        end = time.monotonic() + seconds
        while not ready():
            for each, daemon in self.daemons:
                if daemon.poll() is not None:
                    raise Unavailable(f"{each} ended: {self._output(each)}")
            if time.monotonic() > end:
                raise Unavailable(f"{name} is not up after {seconds} s: {self._output(name)}")
            time.sleep(0.2)

    def _output(self, name: str) -> str:
        return (self.folder / f"{name}.output").read_text(errors="replace").strip()[-500:]

    def _stop(self) -> None:
        if len(self.daemons) == 3:
            self.ask("scancel", "--user", "root")
            end = time.monotonic() + 30
            while self.ask("squeue", "--noheader").strip() and time.monotonic() < end:
                time.sleep(0.2)
        for name, daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                print(f"{name} did not stop and is killed", file=sys.stderr)
                daemon.kill()
                daemon.wait()
        self.daemons.clear()
        LINK.unlink(missing_ok=True)

"""The files of the topic on operating a recorder are accepted by the systems that they are for, and true."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import yaml

from tests.support.cases import each_case
from wiretape.recorder.commands.cli import main as group
from wiretape.recorder.relay.service import DRAIN_SECONDS

ROOT = Path(__file__).parent.parent
TOPIC = (ROOT / "viewer" / "help" / "operate.md").read_text("utf-8")
(UNIT,) = re.findall(r"```ini\n(.*?)```", TOPIC, re.DOTALL)
COMPOSE, POD = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", TOPIC, re.DOTALL))
SETTLE_SECONDS = 3
"""Time for measuring after the drain, as `record --help` says."""


def service() -> Any:
    unit = ConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT)
    return unit["Service"]


IMAGE = re.findall(
    r"^([A-Z]+) (.*)", re.sub(r"\\\n\s*", "", (ROOT / ".package/Dockerfile").read_text("utf-8")), re.MULTILINE
)
"""The instructions of the Dockerfile, and what follows each."""


def instruction(name: str) -> str:
    """Return what follows the last instruction of a name."""
    return [text for instruction_name, text in IMAGE if instruction_name == name][-1]


SIDECAR: Any = POD["spec"]["initContainers"][0]
COMPOSED: Any = COMPOSE["services"]["wiretape"]
COMMANDS = {
    "systemd": shlex.split(service()["ExecStart"]),
    "compose": COMPOSED["command"],
    "Kubernetes": SIDECAR["command"],
    "image": [*json.loads(instruction("CMD")), "--db", "/data/tape.db"],
}


@each_case(("system", "command"), [*COMMANDS.items()])
def test_each_command_is_one_of_this_wiretape(system: str, command: list[str]) -> None:
    program, name, *arguments = command
    assert (program.rpartition("/")[2], name) == ("wiretape", "record"), system
    record = group.get_command(click.Context(group), name)
    assert record is not None
    with record.make_context(name, [*arguments]) as context:
        assert all(context.params[name] for name in ("db", "keep", "max_db_size"))


def test_the_unit_is_verified_by_systemd(tmp_path: Path) -> None:
    assert service()["KillMode"] == "mixed"
    assert service()["ProtectSystem"] == "strict"
    assert service()["ExecStart"].count("/var/lib/" + service()["StateDirectory"] + "/tape.db") == 1
    if (verifier := shutil.which("systemd-analyze")) is None:
        return
    path = tmp_path / "wiretape.service"
    path.write_text(UNIT.replace("/opt/wiretape/bin/wiretape", sys.executable))  # a program that exists
    done = subprocess.run([verifier, "verify", path], capture_output=True, text=True, timeout=60, check=False)
    assert str(path) not in done.stderr
    assert "wiretape.service" not in done.stderr


def test_each_system_waits_for_the_drain_before_it_kills() -> None:
    least = DRAIN_SECONDS + SETTLE_SECONDS + 5
    assert int(service()["TimeoutStopSec"]) >= least
    assert int(COMPOSED["stop_grace_period"].removesuffix("s")) >= least
    assert POD["spec"]["terminationGracePeriodSeconds"] >= least + 20  # the program's, too
    assert COMPOSED["stop_signal"] == "SIGTERM"
    assert f"{DRAIN_SECONDS} s to end" in TOPIC
    record = group.get_command(click.Context(group), "record")
    assert record is not None
    assert f"drains for up to {DRAIN_SECONDS} s," in str(record.help)


def test_containers_write_to_one_volume_only_which_has_the_tape() -> None:
    tape = Path("/data/tape.db")
    assert COMPOSED["read_only"] is True
    assert COMPOSED["volumes"] == [f"tape:{tape.parent}"]
    assert COMPOSE["volumes"] == {"tape": {}}
    assert SIDECAR["securityContext"]["readOnlyRootFilesystem"] is True
    assert SIDECAR["volumeMounts"] == [{"name": "tape", "mountPath": str(tape.parent)}]
    assert [volume["name"] for volume in POD["spec"]["volumes"]] == ["tape"]
    assert all(str(tape) in command for command in (COMPOSED["command"], SIDECAR["command"]))


def test_the_image_has_the_topics_user_volume_and_probe() -> None:
    user = SIDECAR["securityContext"]["runAsUser"]
    assert instruction("USER") == f"{user}:{user}"
    assert f"--uid {user} " in instruction("RUN")
    (volume,) = COMPOSED["volumes"]
    assert instruction("VOLUME") == volume.partition(":")[2]
    assert f"WIRETAPE_DB={volume.partition(':')[2]}/tape.db" in instruction("ENV")
    assert instruction("STOPSIGNAL") == COMPOSED["stop_signal"]
    probe = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert probe == SIDECAR["startupProbe"]["exec"]["command"]


def test_the_image_has_all_that_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    copied = [path for name, text in IMAGE if name == "COPY" and "--from" not in text for path in text.split()[:-1]]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {
        *wheel["sources"],
        *wheel["force-include"],
        project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"],
    }
    assert {*needed, "pyproject.toml", "README.md", *project["project"]["license-files"]} == set(copied)
    sent = (ROOT / ".package/Dockerfile.dockerignore").read_text("utf-8")
    assert re.findall(r"^!(.*)", sent, re.MULTILINE) == copied
    (extras,) = [text.partition("=")[2] for name, text in IMAGE if name == "ARG" and text.startswith("EXTRAS=")]
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])
    (python,) = [text.partition("=")[2] for name, text in IMAGE if name == "ARG" and text.startswith("PYTHON=")]
    assert f"Programming Language :: Python :: {python}" in project["project"]["classifiers"]


def test_the_compose_file_is_valid_where_compose_is_installed(tmp_path: Path) -> None:
    assert COMPOSED["image"] == SIDECAR["image"]
    assert f"-t {COMPOSED['image']} ." in TOPIC
    if (program := shutil.which("docker-compose")) is None:
        return
    (tmp_path / "compose.yml").write_text(yaml.safe_dump(COMPOSE))
    command = [program, "-f", tmp_path / "compose.yml", "config", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_program_finds_the_sidecar_started_before_it() -> None:
    assert SIDECAR["restartPolicy"] == "Always"  # what makes it a sidecar
    (app,) = POD["spec"]["containers"]
    assert {"name": "OPENAI_BASE_URL", "value": "http://127.0.0.1:8377/openai/v1"} in app["env"]
    assert "--listen" not in SIDECAR["command"]  # loopback


def test_the_probe_succeeds_once_something_listens() -> None:
    program, *arguments = SIDECAR["startupProbe"]["exec"]["command"]
    assert program == "python3"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, *(argument.replace("8377", str(port)) for argument in arguments)]
        assert subprocess.run(command, timeout=60, check=False).returncode == 0
    assert subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 1

# SPDX-License-Identifier: Apache-2.0
"""compose.yaml and the image's recipe say what the documents promise. No engine is needed; where docker has Compose 2 it reads the file."""

import json
import re
import subprocess

import pytest
import yaml
from conftest import TOP

FILE = TOP / "compose.yaml"


@pytest.fixture(scope="module")
def service():
    return yaml.safe_load(FILE.read_text())["services"]["constrictor"]


def test_E_12_the_service_is_hardened(service):
    """`docker compose up -d --build` drops all capabilities, runs as `executor`, read-only, with 2 CPUs and 2 GB."""
    assert service["cap_drop"] == ["ALL"] and "cap_add" not in service and "privileged" not in service
    assert "no-new-privileges" in service["security_opt"]
    assert service["deploy"]["resources"]["limits"] == {"cpus": "2", "memory": "2g", "pids": 2048}
    assert service["read_only"] is True and service["tmpfs"][0].startswith("/tmp:")
    assert service["user"] == "10001:10001"
    assert "USER 10001" in (TOP / "Dockerfile").read_text().split("\nFROM base\n")[1]
    assert not any("docker.sock" in volume for volume in service["volumes"])


def test_E_12_the_profile_is_the_one_of_the_tree(service):
    """Its seccomp profile is the engine's default and what makes boxes."""
    name = next(o.partition("=")[2] for o in service["security_opt"] if o.startswith("seccomp="))
    assert json.loads((TOP / name).read_text())["defaultAction"] == "SCMP_ACT_ERRNO"


def test_the_port_is_for_this_machine_and_the_server_knows(service):
    """The two are one anchor, so that a public port cannot be had without the server asking for a key."""
    assert service["ports"][0]["host_ip"] == service["environment"]["CONSTRICTOR_PUBLISHED_ON"]
    assert service["ports"][0]["host_ip"].endswith(":-127.0.0.1}")


def test_a_port_without_the_anchor_is_refused():
    text = re.sub(r"&published .*", "0.0.0.0", FILE.read_text())
    with pytest.raises(yaml.YAMLError, match="published"):
        yaml.safe_load(text)


@pytest.mark.parametrize("published, starts", [("127.0.0.1", True), ("0.0.0.0", False), ("192.0.2.7", False)])
def test_E_13_a_server_in_a_container_wants_a_key_when_its_port_is_public(cli, published, starts):
    """The image runs with plain `docker run` and the flags of docs/deploy.md; a public port needs a key."""
    environment = {"CONSTRICTOR_HOST": "0.0.0.0", "CONSTRICTOR_PUBLISHED_ON": published}
    if starts:
        environment["CONSTRICTOR_PYTHON"] = "/nonexistent/python3"  # it comes further than the question for the key
    done = cli.call("serve", "--port", 0, env=environment)
    assert done.status != 0 and done.raw == b""
    assert (f"'{published}' can be reached from other machines" in done.err) is not starts, done
    assert ("CONSTRICTOR_API_KEY" in done.err) is not starts


def test_the_health_check_of_the_image_asks_the_server(cli):
    """Also where Kubernetes sets CONSTRICTOR_PORT to a URL, as it does for a Service of this name."""
    health = TOP / "dist" / "image" / "health"
    for port in ("1", "tcp://10.0.0.1:8000"):
        done = subprocess.run([health], env={"CONSTRICTOR_PORT": port}, capture_output=True, text=True, timeout=60)
        wanted = port if port.isdecimal() else "8000"
        assert f"http://127.0.0.1:{wanted}/health" in done.stderr if done.returncode else done.stdout


def test_K_22_the_profile_production_has_a_proxy_that_streams_and_wants_a_key():
    """Compose, and with `--profile production` nginx: streams are not buffered, uploads pass, without a key it stays closed."""
    nginx = yaml.safe_load(FILE.read_text())["services"]["nginx"]
    assert nginx["profiles"] == ["production"] and nginx["cap_drop"] == ["ALL"] and nginx["read_only"] is True
    lines = (TOP / "dist" / "nginx" / "nginx.conf").read_text()
    for line in ("proxy_buffering off;", "proxy_request_buffering off;", "proxy_read_timeout 3600s;", "client_max_body_size 256m;",
                 "proxy_set_header Host $http_host;"):
        assert line in lines, line
    start = nginx["entrypoint"][2].replace("$$", "$").replace("exec nginx", "exec echo nginx")
    assert nginx["environment"]["HAS_KEY"] == "${CONSTRICTOR_API_KEY:+yes}"
    for has_key in ("", "yes"):
        done = subprocess.run(["/bin/sh", "-c", start], env={"HAS_KEY": has_key}, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) is bool(has_key), done
        assert ("CONSTRICTOR_API_KEY" in done.stderr) is not bool(has_key), done

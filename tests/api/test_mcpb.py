# SPDX-License-Identifier: Apache-2.0
"""The bundle for desktop clients (`make mcpb`) and the registry's entry, as their readers see them.

The bundle is built when there is none that is newer than the program; then it is unpacked somewhere
else and started the way its manifest says, with what a person would enter in the settings.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import zipfile

import pytest

from mcp_client import Stdio, text

TOP = pathlib.Path(__file__).resolve().parents[2]
NPM = pathlib.Path(os.environ.get("CONSTRICTOR_NPM", TOP / "build" / "npm"))
OUT = TOP / "build" / "mcpb"
HASH = re.compile(r"[0-9a-f]{64}")
EXACT = re.compile(r"\d+\.\d+\.\d+")
SETTINGS = {"python": "python3", "memory": 256, "timeout": 20}


def version():
    return re.search(r"^  version: '(.*)',$", (TOP / "meson.build").read_text(), re.M)[1]


# ---- the registry's entry


def check_entry(entry):
    """The rules of the registry's schema 2025-12-11 that concern this entry."""
    assert entry["$schema"].endswith("/schemas/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 3 <= len(entry["name"]) <= 200
    assert 1 <= len(entry["description"]) <= 100
    assert 1 <= len(entry["title"]) <= 100
    assert EXACT.fullmatch(entry["version"])
    assert set(entry["repository"]) >= {"url", "source"}
    bundle, *named = entry["packages"]
    for package in entry["packages"]:
        assert package["transport"] == {"type": "stdio"}
        assert package["version"] == entry["version"]
    assert set(bundle) == {"registryType", "identifier", "version", "fileSha256", "transport"}
    assert bundle["registryType"] == "mcpb"
    # The registry takes bundles from releases only, and wants "mcp" in their address.
    assert re.fullmatch(r"https://\S+/releases/download/\S+\.mcpb", bundle["identifier"])
    assert HASH.fullmatch(bundle["fileSha256"])
    assert entry["version"] in bundle["identifier"].rpartition("/")[2]
    # The registry looks for the entry's name in what PyPI and npm show of these packages.
    assert [(p["registryType"], p["runtimeHint"], p["identifier"]) for p in named] == [
        ("pypi", "uvx", "constrictor-mcp"), ("npm", "npx", "constrictor-mcp")]
    assert f"mcp-name: {entry['name']}\n" in (TOP / "dist" / "wheel" / "README.md").read_text()
    assert json.loads((TOP / "dist" / "npm" / "package.json").read_text())["mcpName"] == entry["name"]


def test_the_registry_entry_is_well_formed_and_of_this_version():
    entry = json.loads((TOP / "server.json").read_text())
    check_entry(entry)
    assert entry["version"] == version()


def test_the_settings_of_the_manifest_are_options_of_the_program(cli):
    manifest = json.loads((TOP / "dist" / "mcpb" / "manifest.json").read_text())
    args = manifest["server"]["mcp_config"]["args"]
    known = cli.call("stdio", "--help-all").out
    for word in args:
        if word.startswith("--"):
            assert re.search(rf"{word}\b", known), word
    named = set(re.findall(r"\$\{user_config\.(\w+)\}", " ".join(args)))
    assert named == set(manifest["user_config"])


# ---- the bundle


@pytest.fixture(scope="module")
def bundle(program):
    name = f"constrictor-{version()}-linux-{os.uname().machine}.mcpb"
    path = OUT / name
    if not path.exists() or path.stat().st_mtime < program.stat().st_mtime:
        if not (NPM / "node_modules" / "@anthropic-ai" / "mcpb").exists():
            pytest.skip("the bundle tool is not there: tools/setup npm")
        made = subprocess.run(
            [TOP / "tools" / "mcpb"],
            env={**os.environ, "CONSTRICTOR_NPM": str(NPM), "STATIC_BUILDTYPE": "debug"},  # quick to build
            capture_output=True,
            text=True,
            timeout=380,
        )
        assert made.returncode == 0, made.stdout + made.stderr
    return path


def unpack(bundle, folder):
    """As clients do it: the files, with the modes that the archive gives them."""
    with zipfile.ZipFile(bundle) as archive:
        for item in archive.infolist():
            assert not item.filename.startswith("/") and ".." not in item.filename
            path = pathlib.Path(archive.extract(item, folder))
            path.chmod(item.external_attr >> 16 & 0o777)
    return json.loads((folder / "manifest.json").read_text())


def command(manifest, folder, settings):
    """The command line of the manifest, with its marks filled in."""

    def fill(word):
        word = word.replace("${__dirname}", str(folder))
        return re.sub(r"\$\{user_config\.(\w+)\}", lambda m: str(settings[m[1]]), word)

    config = manifest["server"]["mcp_config"]
    return [fill(word) for word in [config["command"], *config["args"]]]


@pytest.fixture
def installed(bundle, cli):
    """The bundle as installed: its manifest, and `cli` for the program in it."""
    folder = cli.folder / "bundle"
    folder.mkdir(mode=0o755)
    manifest = unpack(bundle, folder)
    cli.program, subcommand, *flags = command(manifest, folder, SETTINGS)
    assert subcommand == "stdio"
    return manifest, flags


def test_the_bundle_starts_from_any_folder_and_runs_code(installed, cli):
    manifest, flags = installed
    assert not os.path.samefile(cli.program, TOP / "build" / "constrictor")
    with Stdio(cli, *flags) as client:
        hello = client.open()
        assert hello["serverInfo"]["name"] == manifest["name"]
        assert hello["serverInfo"]["version"] == manifest["version"] == version()
        result = client.python("print(6 * 7)")
        assert not result.get("isError"), result
        assert "42" in text(result)


def test_the_settings_of_a_person_reach_the_box(installed, cli):
    _, flags = installed
    with Stdio(cli, *flags) as client:
        client.open()
        limits = client.call("get_sandbox_info")["structuredContent"]["limits"]
    assert limits["memory"]["default"] == SETTINGS["memory"]
    assert limits["wall_time"]["default"] == SETTINGS["timeout"]


def test_the_manifest_lists_what_the_server_offers(installed, cli):
    manifest, flags = installed
    with Stdio(cli, "--tools", "default", *flags) as client:
        client.open()
        tools = client.result("tools/list")["tools"]
        prompts = client.result("prompts/list")["prompts"]
    assert [t["name"] for t in manifest["tools"]] == [t["name"] for t in tools]
    assert [p["name"] for p in manifest["prompts"]] == [p["name"] for p in prompts]
    for prompt in manifest["prompts"]:
        assert prompt["arguments"]
        for name in prompt["arguments"]:
            assert "${arguments.%s}" % name in prompt["text"], (prompt["name"], name)


def test_the_bundle_needs_no_library_but_the_c_library(installed, cli):
    python = pathlib.Path(cli.program).parent / "python" / "_constrictor.abi3.so"
    for file in (cli.program, python):
        needed = subprocess.run(
            ["readelf", "-d", file], capture_output=True, text=True, check=True
        ).stdout
        for library in re.findall(r"\(NEEDED\).*\[(.*)\]", needed):
            assert re.match(r"(libc|libm|libdl|libpthread|ld-linux.*)\.so", library), library


def test_the_finished_registry_entry_has_the_hash_of_the_bundle(bundle):
    entry = json.loads((OUT / "server.json").read_text())
    check_entry(entry)
    assert entry["packages"][0]["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()

"""The folders of a consortium: keys stay private, sites know nothing of each other."""

import http.server
import importlib.metadata
import inspect
import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from flwr.cli.build import build_fab_from_disk
from typer.testing import CliRunner

from consortium import tiny
from feda3i.commands.deploy import app as deploy
from feda3i.errors import RecipeError, WireError
from feda3i.files import write_png
from feda3i.flower.deploy_check import check_site
from feda3i.flower.deploy_control import write_app
from feda3i.flower.deploy_credentials import DAYS, days_left
from feda3i.flower.deploy_demo import free_port
from feda3i.flower.deploy_folders import ConsortiumSettings as Settings
from feda3i.flower.deploy_folders import add_site, write_consortium
from feda3i.flower.guard import CLIENT, COMMANDS, ROLES, SERVER, check_app, runner_of
from feda3i.flower.node import read_env
from feda3i.flower.server_app import ServerSettings


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    out = tmp_path_factory.mktemp("deploy")
    write_consortium(out, plan_of(out, ("alpha", "beta"), f"localhost:{free_port()}"))
    return out


def plan_of(out, sites=("alpha",), address="server.example.org:8443"):
    return Settings.of(sites=sites, address=address, server=out / "server", runs=out / "runs")


def port_of(consortium):
    return int(Settings.read(consortium).address.rpartition(":")[2])


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_private_files_are_private_and_sites_know_nothing_of_each_other(consortium):
    found = files_in(consortium)
    private = {path: data for path, data in found.items() if path.suffix in (".key", ".secret")}
    assert sorted(str(path.relative_to(consortium)) for path in private) == [
        *("authority/ca.key", "server/server.key", "server/superexec.secret"),
        *("sites/alpha/node.key", "sites/beta/node.key"),
    ]
    assert len(set(private.values())) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    for path in set(found) - set(private):
        assert not any(secret in found[path] for secret in private.values()), path
        assert not re.search(rb"@[A-Z_]+@", found[path]), path
    for site, other in (("alpha", b"beta"), ("beta", b"alpha")):
        for path, data in files_in(consortium / "sites" / site).items():
            assert other not in path.name.encode() + data, path


def checked(folder, names):
    """Return both certificates: the server's is signed by the authority, for these names."""
    authority, server = (
        x509.load_pem_x509_certificate((folder / path).read_bytes())
        for path in ("authority/ca.crt", "server/server.crt")
    )
    server.verify_directly_issued_by(authority)
    found = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(found.get_values_for_type(x509.DNSName)) == names
    return authority, server


def test_certificates_and_keys_fit(consortium):
    for one, is_authority in zip(checked(consortium, {"localhost"}), (True, False), strict=True):
        constraints = one.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert constraints.ca == is_authority
    for site in ("alpha", "beta"):
        folder = consortium / "sites" / site
        key = serialization.load_ssh_private_key((folder / "node.key").read_bytes(), None)
        line = (folder / "node.pub").read_bytes()
        assert key.public_key() == serialization.load_ssh_public_key(line)
        assert (consortium / "server" / "keys" / f"{site}.pub").read_bytes() == line


QUIET = ("TELEMETRY_ENABLED=0", "UPDATE_CHECK=1", "RUNTIME_DEPENDENCY_INSTALLATION=1")


def test_scripts_are_valid_and_call_nobody(consortium):
    for script in (consortium / "server/start.sh", consortium / "sites/alpha/start.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)
        text = script.read_text("utf-8")
        assert all(setting in text for setting in QUIET)
        assert "0.0.0.0" not in text
        assert "--insecure" not in text
    assert "--enable-supernode-auth" in (consortium / "server/start.sh").read_text("utf-8")


def test_the_proxy_opens_the_fleet_and_the_health_check_only(consortium):
    text = (consortium / "server" / "nginx.conf").read_text("utf-8")
    assert text.count("{") == text.count("}")
    assert dict(re.findall(r"location (\S.*?) \{ (.+?); \}", text)) == {
        "/v1/fleet/": "proxy_pass https://superlink",
        "= /health": "proxy_pass https://superlink",
        "/": "return 403",
    }
    assert re.findall(r"upstream superlink \{ server ([\d.]+):", text) == ["127.0.0.1"]
    assert "proxy_ssl_verify on" in text


def test_compose_files_are_yaml_with_one_open_port(consortium):
    server, site = (
        yaml.safe_load((consortium / folder / "compose.yaml").read_text("utf-8"))["services"]
        for folder in ("server", "sites/alpha")
    )
    port = port_of(consortium)
    assert [p for one in server.values() for p in one.get("ports", [])] == [f"{port}:{port}"]
    assert server["proxy"]["network_mode"] == "service:server"
    assert "ports" not in site["node"]
    assert any(volume.endswith(":ro") for volume in site["node"]["volumes"])


@pytest.mark.parametrize(
    ("sites", "address"),
    [((), "h:1"), (("a", "a"), "h:1"), (("../x",), "h:1"), (("a",), "h"), (("a",), "h:1;rm")],
)
def test_wrong_plans_are_named(sites, address):
    with pytest.raises(RecipeError, match=r"consortium: (sites|address)"):
        plan_of(Path("/x"), sites, address)


def test_a_site_is_added_and_the_certificate_renewed_later(tmp_path):
    plan = plan_of(tmp_path)
    write_consortium(tmp_path, plan)
    with pytest.raises(RecipeError, match="already holds something"):
        write_consortium(tmp_path, plan)
    folder = add_site(tmp_path, "gamma")
    known = tomllib.loads((folder / "consortium.toml").read_text("utf-8"))
    assert known["address"] == "server.example.org:8443"
    assert Settings.read(tmp_path) == plan.model_copy(update={"sites": ("alpha", "gamma")})
    assert (tmp_path / "server/keys/gamma.pub").exists()
    assert read_env(tmp_path / "server")["FEDA3I_SITES"] == "alpha,gamma"
    with pytest.raises(RecipeError, match="expected different names"):
        add_site(tmp_path, "gamma")
    (tmp_path / "server/server.crt").unlink()
    guide = (tmp_path / "GUIDE.md").read_text("utf-8")
    command = re.search(r"( +openssl req .*?server\.crt\n)", guide, re.S)[1]
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=True, capture_output=True)
    checked(tmp_path, {"server.example.org", "localhost"})
    assert DAYS - 1 < days_left(tmp_path / "server/server.crt") <= DAYS


# -- the app ------------------------------------------------------------------------------------


def test_the_guard_lets_pass_settings_only_and_refuses_code(tmp_path):
    folder = write_app(tmp_path / "app", tiny(), "first", False)
    fab, settings = build_fab_from_disk(folder), folder / "pyproject.toml"
    for kind, component in (("clientapp", CLIENT), ("serverapp", SERVER)):
        check_app(fab, kind, component)
    assert len(fab) < 2000
    (folder / "evil.py").write_text("import os")
    code = build_fab_from_disk(folder)
    (folder / "evil.py").unlink()
    settings.write_text(settings.read_text("utf-8").replace(CLIENT, "os:path"))
    for wrong, text in (
        (code, r"settings only, found \['evil.py'\]"),
        (build_fab_from_disk(folder), "expected the component"),
        (b"no archive", "cannot be read"),
        (bytes(2**20 + 1), "at most"),
    ):
        with pytest.raises(WireError, match=text):
            check_app(wrong, "clientapp", CLIENT)


def test_the_guard_runs_one_command_only(consortium):
    python = Path(sys.executable).parent  # start scripts run in the environment of the node
    path = f"{consortium}/sites/alpha/bin:{python}:{os.environ['PATH']}"
    command, env = ["flwr-agentapp", "--token", "x"], {**os.environ, "PATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "does not run 'flwr-agentapp'" in done.stderr


@pytest.mark.parametrize("role", ROLES)
def test_flower_unpacks_apps_where_the_guard_stands(role):
    """If this fails, Flower has changed: look again where it unpacks an app, and how."""
    runner = runner_of(role)
    text = inspect.getsource(runner)
    assert len(re.findall(r"\binstall_from_fab\(", text)) == 1  # the one that the guard replaces
    assert re.search(r"^from flwr\.cli\.install import install_from_fab$", text, re.M)
    assert "zipfile" not in text
    scripts = importlib.metadata.entry_points(group="console_scripts")
    of_apps = {s.name for s in scripts if s.value.startswith("flwr") and s.name[:5] == "flwr-"}
    assert of_apps == set(COMMANDS)


def test_the_guard_runs_nothing_if_flower_has_changed(monkeypatch):
    monkeypatch.setattr(runner_of("site"), "install_from_fab", print)
    with pytest.raises(WireError, match="apps cannot be checked"):
        runner_of("site")


def test_server_settings_come_from_app_and_environment(tmp_path):
    config = {"recipe": json.dumps(tiny().to_dict()), "run": "first", "resume": False}
    found = ServerSettings.of(config, {"FEDA3I_RUNS": str(tmp_path), "FEDA3I_SITES": "a, b"})
    assert found.folder == tmp_path / "first"
    assert (found.sites, found.least(), found.is_resumed) == (("a", "b"), 2, False)
    for wrong, text in (
        ({"run": "../x"}, "folder name"),
        ({"recipe": "{"}, "JSON"),
        ({"recipe": json.dumps({"method": {"name": "x.py:X"}})}, "what is installed"),
    ):
        with pytest.raises(RecipeError, match=text):
            ServerSettings.of({**config, **wrong}, {"FEDA3I_RUNS": str(tmp_path)})
    with pytest.raises(RecipeError, match="FEDA3I_RUNS"):
        ServerSettings.of(config, {})


# -- the check of a site ------------------------------------------------------------------------


class Health(http.server.BaseHTTPRequestHandler):
    """A proxy that lets the health check through."""

    closed = 403

    def do_GET(self):
        self.send_response(200 if self.path == "/health" else self.closed)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def site(consortium, tmp_path, monkeypatch):
    """Return the folder of a site whose server answers and whose data are fine."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    folder = consortium / "sites" / "alpha"
    for part in ("images", "masks"):
        write_png(tmp_path / "data" / part / "one.png", np.eye(40, dtype=np.uint8) * 255)
    (folder / "site.toml").write_text(
        f'site = "alpha"\ndata-dir = "{tmp_path / "data"}"\nstate-dir = "{tmp_path / "state"}"\n'
    )
    server = http.server.HTTPServer(("127.0.0.1", port_of(consortium)), Health)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(consortium / "server/server.crt", consortium / "server/server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_site_that_is_ready_passes_the_check(site):
    findings = {name: (is_fine, text) for name, is_fine, text in check_site(site)}
    names = "versions settings key guard data state connection exposure"
    assert list(findings) == names.split()
    assert {is_fine for is_fine, _ in findings.values()} == {True}
    assert "1 cases" in findings["data"][1]
    done = CliRunner().invoke(deploy, ["check", str(site)])
    assert done.exit_code == 0, done.output


def change(path, pattern, text):
    path.write_text(re.sub(pattern, text, path.read_text("utf-8")))


def test_each_mistake_is_found(site, tmp_path, monkeypatch):
    wrong = shutil.copytree(site, tmp_path / "site")
    (wrong / "node.key").chmod(0o644)
    (wrong / "bin" / "flwr-clientapp").unlink()
    (wrong / "ca.crt").write_bytes((site.parents[1] / "server" / "server.crt").read_bytes())
    change(wrong / "site.toml", "/state", "/data/state")
    change(wrong / "consortium.toml", "version = .*", 'version = "99.0"')
    found = {name: text for name, is_fine, text in check_site(wrong) if not is_fine}
    assert "chmod 600" in found["key"]
    assert "any app" in found["guard"]
    assert "no connection" in found["connection"]
    assert "inside data-dir" in found["state"]
    assert "99.0" in found["versions"]
    assert CliRunner().invoke(deploy, ["check", str(wrong)]).exit_code == 1
    monkeypatch.setattr("feda3i.flower.deploy_check.LOOPBACK", ())
    monkeypatch.setattr(Health, "closed", 200)
    found = {name: text for name, is_fine, text in check_site(site) if not is_fine}
    assert "reverse proxy" in found["exposure"]


def test_init_by_command(tmp_path):
    done = CliRunner().invoke(
        deploy, ["init", str(tmp_path / "out"), "--sites", "a,b", "--address", "x.org:8443"]
    )
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "out" / "sites").iterdir()) == ["a", "b"]
    assert read_env(tmp_path / "out" / "server")["FEDA3I_RUNS"] == str(tmp_path / "out" / "runs")

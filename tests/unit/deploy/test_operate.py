"""Keys and certificates over the years, and the commands of the operator."""

import datetime

import pytest
from cryptography import x509
from typer.testing import CliRunner

from feda3i.commands.deploy import app as deploy
from feda3i.deploy import credentials
from feda3i.deploy.control import main as register
from feda3i.deploy.folders import ConsortiumSettings, renew, write_consortium
from feda3i.errors import RecipeError


@pytest.fixture
def out(tmp_path):
    write_consortium(tmp_path / "out", ConsortiumSettings(("alpha", "beta"), "x.org:8443"))
    return tmp_path / "out"


def command(*arguments):
    return CliRunner().invoke(deploy, list(map(str, arguments)))


def in_years(monkeypatch, years):
    """Let certificates be made, and looked at, as if it were years from now."""

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.now(tz) + datetime.timedelta(days=365.25 * years)

    monkeypatch.setattr(credentials, "datetime", Later)


def test_the_authority_outlives_the_certificates_of_the_server(out, monkeypatch):
    before = (out / "authority/ca.crt").read_bytes()
    in_years(monkeypatch, 4)
    assert credentials.days_left(out / "server/server.crt") < 0
    assert not renew(out, 825)  # sites need no change
    assert (out / "authority/ca.crt").read_bytes() == before
    assert 824 < credentials.days_left(out / "server/server.crt") < 826


def test_an_expired_authority_is_renewed_with_its_key(out, monkeypatch):
    old = x509.load_pem_x509_certificate((out / "authority/ca.crt").read_bytes())
    in_years(monkeypatch, 11)
    done = command("renew", out)
    assert "send authority/ca.crt to every" in done.output
    new = x509.load_pem_x509_certificate((out / "authority/ca.crt").read_bytes())
    assert new.public_key() == old.public_key()
    assert new.not_valid_after_utc > old.not_valid_after_utc
    server = x509.load_pem_x509_certificate((out / "server/server.crt").read_bytes())
    server.verify_directly_issued_by(new)
    for place in ("server", "sites/alpha", "sites/beta"):
        assert (out / place / "ca.crt").read_bytes() == (out / "authority/ca.crt").read_bytes()


def test_a_server_with_an_expired_certificate_says_so_at_once(out, monkeypatch):
    monkeypatch.chdir(out / "server")
    in_years(monkeypatch, 4)
    with pytest.raises(SystemExit, match=r"certificate has expired.*deploy renew"):
        register(["admit", "keys"])


def test_a_site_makes_a_new_key_and_the_operator_takes_its_public_half(out):
    site, server = out / "sites" / "alpha", out / "server"
    before = (site / "node.key").read_bytes()
    assert command("rotate", site).exit_code == 0
    assert (site / "node.key").read_bytes() != before
    assert oct((site / "node.key").stat().st_mode)[-3:] == "600"
    public = (site / "node.pub").read_text().split()
    assert credentials.public_line(site / "node.key").split() == public[:2]
    # No SuperLink answers here, but the key is in its place for the next start.
    done = command("admit", "alpha", site / "node.pub", "--server", server)
    assert "no SuperLink answers" in str(done.exception)
    assert (server / "keys/alpha.pub").read_text().split() == public


@pytest.mark.parametrize(
    ("text", "reason"), [(b"nonsense", "public key"), (None, "private key, which must not leave")]
)
def test_what_is_not_a_public_key_is_refused(out, tmp_path, text, reason):
    file = tmp_path / "file"
    file.write_bytes(text or (out / "sites/alpha/node.key").read_bytes())
    before = (out / "server/keys/alpha.pub").read_bytes()
    done = command("admit", "alpha", file, "--server", out / "server")
    assert isinstance(done.exception, RecipeError)
    assert reason in str(done.exception)
    assert (out / "server/keys/alpha.pub").read_bytes() == before


def test_lock_and_unlock_by_command(out):
    server = out / "server"
    assert "alpha is locked out" in command("lock", "alpha", "--server", server).output
    assert "already" in command("lock", "alpha", "--server", server).output
    assert "is in again" in command("unlock", "alpha", "--server", server).output
    assert "was not locked" in command("unlock", "alpha", "--server", server).output
    wrong = command("lock", "gamma", "--server", server)
    assert "known: alpha, beta" in str(wrong.exception)

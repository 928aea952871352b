"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass
class Authority:
    """Signs certificates, and keeps everything in a directory."""

    directory: Path
    name: str = "Test authority"
    key: ec.EllipticCurvePrivateKey = field(default_factory=_key)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.path = self.directory / "ca.pem"
        self.path.write_bytes(self._sign(self.name, self.key, is_authority=True))

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> bytes:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if is_authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, file: str = "server") -> tuple[Path, Path]:
        """A certificate and its key, as files; those of the same name are replaced."""
        key = _key()
        certificate, secret = self.directory / f"{file}.pem", self.directory / f"{file}.key"
        certificate.write_bytes(self._sign(name, key, is_authority=False))
        secret.write_bytes(_pem(key))
        return certificate, secret

    def client(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """How a client checks a server of this authority, and what it shows."""
        context = ssl.create_default_context(cafile=str(self.path))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context


def common_name(certificate: dict[str, object]) -> str:
    """Of what ``getpeercert`` gives."""
    subject = certificate["subject"]
    return dict(pair for group in subject for pair in group)["commonName"]  # type: ignore[attr-defined, no-any-return]

//! TLS begins aside: an I/O thread neither signs nor checks certificates.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use tidegate_engine::sync::lock;
use tidegate_plane::aside::aside;
use tidegate_plane::security::tls::{accept, certificates};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio_rustls::TlsConnector;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Signed by itself, for localhost, both ways.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBkzCCATigAwIBAgIUeu3J8J/QqgAs2luxArAc3Fy5TwswCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyNzA0MzIzMloYDzIxMjYxMTAz
MDQzMjMyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAR/YEcF7Gs7gF9o31gCCqBKW+/8ceiPyYoVJFMhc3aIj8tkiiC0wedR
1xs0qiOavUCa3V02Z3ZRN2ALvlEIGkIDo2YwZDAdBgNVHQ4EFgQUwhlhiP1uTbEz
JnA5NcpUFmMTknMwHwYDVR0jBBgwFoAUwhlhiP1uTbEzJnA5NcpUFmMTknMwFAYD
VR0RBA0wC4IJbG9jYWxob3N0MAwGA1UdEwEB/wQCMAAwCgYIKoZIzj0EAwIDSQAw
RgIhAJaGxKFHxsG/KRi4tPJnbKfvBfcXb3iNluhPlAXcG38nAiEA9EFLwMQXa3tM
LTvqzPSR5LgpJIUWb7+0imIJdDpu9t0=
-----END CERTIFICATE-----
";
const KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgkdRCUbpb5LlfBQdl
yK7ZPcYvpz1BLrBW+/j/uyN3b/ihRANCAAR/YEcF7Gs7gF9o31gCCqBKW+/8ceiP
yYoVJFMhc3aIj8tkiiC0wedR1xs0qiOavUCa3V02Z3ZRN2ALvlEIGkID
-----END PRIVATE KEY-----
";

/// Takes every certificate, and notes the threads that look at one.
#[derive(Debug)]
struct Noting {
    provider: Arc<CryptoProvider>,
    threads: Arc<Mutex<Vec<ThreadId>>>,
}

impl Noting {
    fn note(&self) {
        lock(&self.threads).push(thread::current().id());
    }
}

impl ClientCertVerifier for Noting {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.note();
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.note();
        verify_tls12_signature(message, shown, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.note();
        verify_tls13_signature(message, shown, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn own() -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = certificates(CERTIFICATE.as_bytes(), "the certificate").unwrap();
    (chain, PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap())
}

fn client(version: &'static rustls::SupportedProtocolVersion) -> TlsConnector {
    let (chain, key) = own();
    let mut roots = RootCertStore::empty();
    roots.add(chain[0].clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[version]).unwrap().with_root_certificates(roots);
    TlsConnector::from(Arc::new(builder.with_client_auth_cert(chain, key).unwrap()))
}

#[test]
fn certificates_of_clients_are_checked_aside() {
    let (aside, jobs) = aside(2);
    let jobs = Arc::new(jobs);
    for _ in 0..2 {
        let jobs = jobs.clone();
        thread::spawn(move || jobs.run(&|| ()));
    }
    let (provider, threads) = (Arc::new(ring::default_provider()), Arc::default());
    let verifier = Arc::new(Noting { provider: provider.clone(), threads: Arc::clone(&threads) });
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let (chain, key) = own();
    let config = Arc::new(builder.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let begun = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let socket = TcpStream::connect(listener.local_addr()?).await?;
            let (accepted, _) = listener.accept().await?;
            let (client, name) = (client(version), ServerName::try_from("localhost").unwrap());
            let (shown, server) =
                tokio::join!(client.connect(name, socket), accept(accepted, PEER, config.clone(), &aside));
            drop(shown?);
            server.map(|(_, names)| names)
        });
        let begun: io::Result<Vec<String>> = begun;
        assert_eq!(begun.unwrap(), ["CN=localhost", "localhost"], "{version:?}");
    }
    let noted = std::mem::take(&mut *lock(&threads));
    assert_eq!(noted.len(), 4, "a certificate and a signature of each connection");
    assert!(!noted.contains(&thread::current().id()), "on the I/O thread");
    aside.close();
}

//! TLS on the data ports: what the server shows, whose certificates it takes, and the beginning of a connection.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{Acceptor, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tidegate_engine::metrics::Endpoint;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, LazyConfigAcceptor};

use crate::aside::Aside;
use crate::security::certificate;
use crate::security::plain_text;
use crate::sockets::slow_takers::SlowTaker;

/// Certificates and a key as their files have them (PEM).
#[derive(Clone)]
pub struct Pem {
    /// The server's certificate, and those between it and an authority.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// Who signs the certificates that clients have to show; none asks for none.
    pub client_ca: Option<Vec<u8>>,
    /// Whether only the gRPC endpoint shows it, and REST stays in plain text.
    pub grpc_alone: bool,
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pem")
    }
}

/// How TLS begins, by endpoint: they differ in the protocol that is spoken inside. None for REST in plain text.
#[derive(Debug)]
pub struct Tls {
    grpc: Arc<ServerConfig>,
    rest: Option<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads certificates and key; the error says which of them cannot be used.
    pub fn new(pem: &Pem) -> Result<Tls, String> {
        let rest = (!pem.grpc_alone).then(|| configure(pem, b"http/1.1")).transpose()?;
        Ok(Tls { grpc: configure(pem, b"h2")?, rest })
    }

    /// For connections of one endpoint; none where it speaks plain text.
    pub fn of(&self, endpoint: Endpoint) -> Option<Arc<ServerConfig>> {
        match endpoint {
            Endpoint::Rest => self.rest.clone(),
            _ => Some(self.grpc.clone()),
        }
    }
}

fn configure(pem: &Pem, protocol: &[u8]) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|why| why.to_string())?;
    let builder = match &pem.client_ca {
        None => builder.with_no_client_auth(),
        Some(bytes) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(bytes, "the client authority")? {
                roots.add(root).map_err(|why| format!("the client authority cannot be used: {why}"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|why| why.to_string())?)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|why| format!("the key is no PEM key: {why}"))?;
    let chain = certificates(&pem.certificate, "the certificate")?;
    let mut config = builder.with_single_cert(chain, key).map_err(|why| format!("certificate and key: {why}"))?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

/// The certificates of a PEM file, one at least; the error calls it `what`.
pub fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = read.map_err(|why| format!("{what} is no PEM file: {why}"))?;
    if found.is_empty() { Err(format!("{what} has no PEM certificate")) } else { Ok(found) }
}

/// Begins TLS on an accepted socket; with it come the names of the client's certificate. Who speaks plain text is told so.
/// Keys are made and signed, and a client's certificates checked, aside, for one peer after the other: a client needs next to
/// nothing to ask for that.
pub async fn accept(
    socket: TcpStream,
    peer: IpAddr,
    tls: Arc<ServerConfig>,
    aside: &Aside,
) -> io::Result<(TlsStream<SlowTaker>, Vec<String>)> {
    let socket = SlowTaker::new(plain_text::refuse(socket).await?);
    let hello = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
    let stream = shake_hands(move || hello.into_stream(tls), peer, aside).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let names = shown.map(|shown| certificate::names(shown)).unwrap_or_default();
    Ok((stream, names))
}

/// Goes on as often as the client has sent or taken something, each time aside, until TLS has begun.
async fn shake_hands(
    begin: impl FnOnce() -> Accept<SlowTaker> + Send + 'static,
    peer: IpAddr,
    aside: &Aside,
) -> io::Result<TlsStream<SlowTaker>> {
    let ready = Arc::new(Ready::default());
    let mut next: Box<dyn FnOnce() -> Box<Accept<SlowTaker>> + Send> = Box::new(move || Box::new(begin()));
    let mut goes_on = false;
    loop {
        let waker = Waker::from(ready.clone());
        let shaken = aside.begin_tls(peer, goes_on, move || {
            let mut accept = next();
            match Pin::new(&mut *accept).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(ended) => Ok(ended),
                Poll::Pending => Err(accept),
            }
        });
        match shaken.await.ok_or(io::ErrorKind::ConnectionAborted)? {
            Ok(ended) => return ended,
            Err(accept) => (next, goes_on) = (Box::new(move || accept), true),
        }
        ready.0.notified().await;
    }
}

/// Told when a socket can be read or written again, also before anybody waits for that.
#[derive(Debug, Default)]
struct Ready(Notify);

impl Wake for Ready {
    fn wake(self: Arc<Ready>) {
        self.0.notify_one();
    }
}

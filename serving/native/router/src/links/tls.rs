//! TLS towards nodes: whose certificates are taken, and what the router shows of itself.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tidegate_plane::security::tls::certificates;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What TLS to nodes needs, as its files have it (PEM).
#[derive(Clone)]
pub struct NodePem {
    /// Who signs the nodes' certificates.
    pub ca: Vec<u8>,
    /// The certificate that the router shows, and its key, where nodes ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the nodes' certificates, where it is not the host of each one's address.
    pub server_name: Option<String>,
}

impl fmt::Debug for NodePem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodePem")
    }
}

/// What is spoken with a node, each at an address of its own.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    /// HTTP/2, by gRPC.
    Grpc,
    /// HTTP/1.1, by REST.
    Rest,
}

/// How TLS to nodes begins.
#[derive(Debug)]
pub struct NodeTls {
    grpc: TlsConfig,
    rest: TlsConfig,
    server_name: Option<ServerName<'static>>,
}

type TlsConfig = Arc<ClientConfig>;

impl NodeTls {
    /// Reads certificates and key; the error says which of them cannot be used.
    pub fn new(pem: &NodePem) -> Result<NodeTls, String> {
        let named = pem.server_name.as_deref().map(|name| {
            ServerName::try_from(name.to_owned()).map_err(|_| format!("server name '{name}' can be no host's name"))
        });
        Ok(NodeTls {
            grpc: configure(pem, b"h2")?,
            rest: configure(pem, b"http/1.1")?,
            server_name: named.transpose()?,
        })
    }

    /// Begins TLS on a connection to `host:port`, or says why it cannot.
    pub async fn begin(
        &self,
        socket: TcpStream,
        address: &str,
        protocol: Protocol,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = self.server_name.clone().map_or_else(|| host_of(address), Ok)?;
        let config = match protocol {
            Protocol::Grpc => &self.grpc,
            Protocol::Rest => &self.rest,
        };
        TlsConnector::from(config.clone()).connect(name, socket).await.map_err(|why| explain(&why))
    }
}

fn configure(pem: &NodePem, protocol: &[u8]) -> Result<TlsConfig, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates(&pem.ca, "the nodes' authority")? {
        roots.add(root).map_err(|why| format!("the nodes' authority cannot be used: {why}"))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|why| why.to_string())?;
    let builder = builder.with_root_certificates(roots);
    let mut config = match &pem.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key =
                PrivateKeyDer::from_pem_slice(key).map_err(|why| format!("the router's key is no PEM key: {why}"))?;
            let chain = certificates(certificate, "the router's certificate")?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|why| format!("the router's certificate and key: {why}"))?
        }
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

fn host_of(address: &str) -> Result<ServerName<'static>, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    ServerName::try_from(host.to_owned()).map_err(|_| format!("'{host}' is no host whose certificate could be checked"))
}

/// Why TLS did not begin, with what helps.
fn explain(why: &std::io::Error) -> String {
    let cause = why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let cure = match cause {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            ": fleet.node_ca has to name who signed the node's certificate"
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => ": fleet.node_server_name has to be a name in the node's certificate",
        Some(rustls::Error::InvalidMessage(_)) => {
            ": does the node speak plain text? Set its data_certificate, or leave out fleet.node_ca here"
        }
        _ => "",
    };
    format!("no TLS with the node: {why}{cure}")
}

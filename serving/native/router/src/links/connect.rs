//! A new connection to a node, with TLS or without.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::links::tls::{NodePem, NodeTls, Protocol};

/// A node that takes no connection within this time is not there.
pub const CONNECTING: Duration = Duration::from_secs(2);

/// What bytes go through, whatever is below.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Opens connections to nodes; all that share it see at once what is set.
#[derive(Clone, Debug)]
pub struct Connector {
    tls: Option<Arc<ArcSwap<NodeTls>>>,
}

/// How many I/O threads there are, how many connections over HTTP/2 each has to a node, what opens them and what ends them.
#[derive(Clone, Debug)]
pub struct Links {
    /// I/O threads.
    pub lanes: usize,
    /// Connections.
    pub connections: usize,
    /// What opens them.
    pub connector: Connector,
    /// A node is asked so often whether it lives, and has as long to answer.
    pub keepalive: Duration,
}

impl Connector {
    /// With TLS where certificates are given; the error says which of them cannot be used.
    pub fn new(pem: Option<&NodePem>) -> Result<Connector, String> {
        let tls = pem.map(NodeTls::new).transpose()?;
        Ok(Connector { tls: tls.map(|tls| Arc::new(ArcSwap::from_pointee(tls))) })
    }

    /// How connections begin from now on. The error says what cannot be used; then nothing changes.
    pub fn set(&self, pem: &NodePem) -> Result<(), String> {
        let tls = self.tls.as_ref().ok_or("the router was started without TLS to its nodes")?;
        tls.store(Arc::new(NodeTls::new(pem)?));
        Ok(())
    }

    /// Whether they are encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// A new connection, or why there is none.
    pub async fn connect(&self, address: &str, protocol: Protocol) -> Result<Box<dyn Stream>, String> {
        let begun = timeout(CONNECTING, self.begin(address, protocol)).await;
        let opened = begun.unwrap_or_else(|_| Err(format!("no connection within {CONNECTING:?}")));
        opened.map_err(|why| format!("{address}: {why}"))
    }

    async fn begin(&self, address: &str, protocol: Protocol) -> Result<Box<dyn Stream>, String> {
        let socket = TcpStream::connect(address).await.map_err(|why| why.to_string())?;
        let _ = socket.set_nodelay(true);
        match &self.tls {
            None => Ok(Box::new(socket)),
            Some(tls) => Ok(Box::new(tls.load_full().begin(socket, address, protocol).await?)),
        }
    }
}

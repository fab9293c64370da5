//! What an endpoint knows of the other end of a connection that it serves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Method};
use tidegate_codec::status::{Code, Status};
use tidegate_engine::limits::Limits;
use tidegate_engine::telemetry::{Came, Observation, Observer};

use crate::aside::Aside;
use crate::connections::lifeline::{LEAVE, Lifeline};
use crate::connections::pace::Pace;
use crate::connections::tended::Connections;

/// One connection's surroundings.
pub struct Peer {
    /// What is bounded.
    pub limits: Arc<Limits>,
    /// What is known of the connection.
    pub lifeline: Arc<Lifeline>,
    /// All connections.
    pub connections: Arc<Connections>,
    /// How much is read and begun between two looks at the sockets.
    pub pace: Pace,
    /// Where work goes that takes long.
    pub aside: Arc<Aside>,
    /// The names of its certificate, where it showed one.
    pub names: Vec<String>,
    /// Where it is; none through a socket of a file.
    pub address: Option<SocketAddr>,
    /// Who looks at requests, if anybody does.
    pub observer: Option<Arc<Observer>>,
}

/// Characters of a path that are told.
const TOLD: usize = 512;

impl Peer {
    /// The head of a request has come.
    #[inline]
    pub fn observe(&self, method: &Method, path: &str, headers: &HeaderMap) -> Observation {
        let Some(observer) = &self.observer else { return Observation::default() };
        let end = (0..=path.len().min(TOLD)).rev().find(|at| path.is_char_boundary(*at));
        let path = &path[..end.unwrap_or(0)];
        let (endpoint, method, at) = (self.lifeline.endpoint, method.clone(), Instant::now());
        observer.begin(Came { endpoint, peer: self.address, method, path: path.into(), at }, headers)
    }

    /// Refuses a request on a connection that is one too many, unless it asks for the server's health. Its client is to come
    /// anew: a connection that is one too many stays that, and there may be room for the next one.
    pub fn refuse(&self, health: bool) -> Option<Status> {
        if !self.lifeline.reserved || health {
            return None;
        }
        self.connections.refuse(self.lifeline.endpoint);
        self.lifeline.order(LEAVE);
        let limit = self.limits.max_connections();
        Some(Status::new(Code::Unavailable, format!("there are too many connections: the limit is {limit}")))
    }
}

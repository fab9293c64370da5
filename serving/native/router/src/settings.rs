//! Settings: how a router listens, which is as an engine does, and how it forwards.

use std::time::Duration;

use tidegate_plane::settings::Settings;

use crate::links::tls::NodePem;

/// What requests may wait for whose model is on no node yet.
#[derive(Clone, Copy, Debug)]
pub struct ColdLimits {
    /// So long, each.
    pub patience: Duration,
    /// So many at a time.
    pub requests: usize,
    /// So many bytes of them, together.
    pub bytes: usize,
}

/// Frozen settings of a router.
#[derive(Clone, Debug)]
pub struct RouterSettings {
    /// Addresses, threads and limits towards clients; nothing is logged of inferences.
    pub plane: Settings,
    /// What waits for models that are on no node.
    pub cold: ColdLimits,
    /// Without an answer for so long a second copy goes to another node, if any does.
    pub hedge_after: Option<Duration>,
    /// HTTP/2 connections of each I/O thread to each node.
    pub connections_per_node: usize,
    /// What TLS to nodes needs; none for plain text.
    pub node_tls: Option<NodePem>,
}

impl RouterSettings {
    /// Says which value cannot be.
    pub fn check(&self) -> Result<(), String> {
        self.plane.check()?;
        let positive = [
            ("cold_requests", self.cold.requests),
            ("cold_bytes", self.cold.bytes),
            ("connections_per_node", self.connections_per_node),
            ("hedge_after_ms", self.hedge_after.map_or(1, |after| after.as_millis() as usize)),
        ];
        match positive.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(format!("{name} is 0: it must be at least 1")),
            None if self.plane.telemetry.traces.is_some() => {
                let what =
                    "trace_sampling_rate is set: a router records no traces, it hands a client's on to the nodes";
                Err(what.to_owned())
            }
            None if self.plane.shared_memory => {
                Err("shared_memory is set: a router's clients and nodes share no memory".to_owned())
            }
            None => Ok(()),
        }
    }
}

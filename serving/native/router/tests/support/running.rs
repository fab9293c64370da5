//! A router that runs in a test's process, in front of fake nodes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_engine::telemetry::TelemetryOptions;
use tidegate_plane::settings::{Patience, Security, Settings};
use tidegate_router::router::{Router, Wanted};
use tidegate_router::settings::{ColdLimits, RouterSettings};

use super::process::Process;
use super::{LONG, Node, grpc, rest};

/// A router that listens on any free ports, for the calling test.
pub struct Running {
    pub router: Router,
    pub wanted: Arc<Mutex<Vec<String>>>,
    pub process: Arc<Process>,
}

pub fn settings() -> RouterSettings {
    let patience = Patience { header: LONG, idle: LONG, keepalive: LONG, write: LONG };
    let plane = Settings {
        grpc_address: Some("127.0.0.1:0".to_owned()),
        grpc_socket_path: None,
        rest_address: Some("127.0.0.1:0".to_owned()),
        metrics_path: None,
        starting: false,
        rest_cors: false,
        numbers: Numbers::InFields,
        shared_memory: false,
        security: Security::default(),
        telemetry: TelemetryOptions::default(),
        io_threads: 1,
        max_message_bytes: 64 << 20,
        request_memory_bytes: 1 << 30,
        max_connections: 100,
        patience,
        request_timeout: 10 * LONG,
        event_keepalive: LONG,
        log_block_rows: 1,
        log_block_interval: LONG,
        log_buffer_bytes: 1 << 20,
    };
    let cold = ColdLimits { patience: LONG, requests: 4, bytes: 1 << 20 };
    RouterSettings { plane, cold, hedge_after: None, connections_per_node: 1, node_tls: None }
}

impl Running {
    pub fn start(settings: &RouterSettings) -> Running {
        let wanted = Arc::<Mutex<Vec<String>>>::default();
        let told = wanted.clone();
        let tell: Wanted = Box::new(move |name| told.lock().unwrap().push(name.to_owned()));
        let process = Arc::new(Process::default());
        Running { router: Router::start(settings, tell, process.clone()).unwrap(), wanted, process }
    }

    /// In front of nodes that all have model `m`.
    pub fn before(nodes: &[&Node]) -> Running {
        let running = Running::start(&settings());
        running.apply(nodes, &[("m", &nodes.iter().map(|node| node.name).collect::<Vec<_>>())]);
        running
    }

    pub fn apply(&self, nodes: &[&Node], models: &[(&str, &[&str])]) {
        let addresses = nodes.iter().map(|node| (node.name.to_owned(), node.addresses.clone())).collect();
        self.router.apply(addresses, placed(models)).unwrap();
    }

    pub fn grpc(&self) -> grpc::Client {
        grpc::Client::connect(self.grpc_address())
    }

    pub fn rest(&self) -> rest::Client {
        rest::Client::connect(self.router.rest_address().unwrap())
    }

    pub fn grpc_address(&self) -> SocketAddr {
        self.router.grpc_address().unwrap()
    }

    pub fn wanted(&self) -> Vec<String> {
        self.wanted.lock().unwrap().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.router.stop(Duration::ZERO);
    }
}

pub fn placed(models: &[(&str, &[&str])]) -> HashMap<String, Vec<String>> {
    let on = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    models.iter().map(|(name, ids)| ((*name).to_owned(), on(ids))).collect()
}

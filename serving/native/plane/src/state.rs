//! What all endpoints of a plane share beside the engine: readiness, control calls, and how REST answers.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_engine::engine::Engine;
use tidegate_engine::telemetry::Observer;
use tokio::sync::watch;

use crate::aside::Aside;
use crate::control::Control;

use crate::metrics_page::MetricsPage;
use crate::pages::Pages;
use crate::security::access::Access;
use crate::security::gate::Gate;
use crate::security::tls::{Pem, Tls};
use crate::settings::Settings;
use crate::shared_memory::SharedMemory;

/// What `/v2/health/ready` answers.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Whether requests should come.
    pub ready: bool,
    /// Why, or why not.
    pub reason: String,
    /// Whether the plane drains; then it stays so.
    pub draining: bool,
}

/// The shared parts of a plane.
pub struct PlaneState {
    /// Serving map, counters and log.
    pub engine: Arc<Engine>,
    /// Calls that Python answers.
    pub control: Control,
    /// Where work goes that takes long.
    pub aside: Arc<Aside>,
    /// Who waits for pages about all models.
    pub pages: Pages,
    /// What `/metrics` answers.
    pub metrics_page: MetricsPage,
    /// One more path of the metrics.
    pub metrics_path: Option<String>,
    /// Whether pages of any origin may read REST answers.
    pub rest_cors: bool,
    /// How numbers are written in answers to Predict over gRPC.
    pub numbers: Numbers,
    /// What clients registered of this machine's shared memory.
    pub shared_memory: SharedMemory,
    /// A stream of events without a message for so long sends a comment.
    pub event_keepalive: Duration,
    /// Who may ask.
    pub gate: Gate,
    /// How connections beyond this machine's sockets of files begin; none where all of them speak plain text.
    pub tls: Option<ArcSwap<Tls>>,
    /// Who looks at single requests, if anybody does.
    pub observer: Option<Arc<Observer>>,
    readiness: watch::Sender<Readiness>,
}

impl PlaneState {
    /// Not ready, and serving nothing. The error says what of certificates and key cannot be used.
    pub fn new(settings: &Settings, control: Control, aside: Aside) -> Result<PlaneState, String> {
        let tls = settings.security.tls.as_ref().map(Tls::new).transpose()?;
        let engine = Arc::new(Engine::new(settings.limits(), &settings.log_limits()));
        Ok(PlaneState {
            observer: Observer::new(&settings.telemetry, engine.metrics.telemetry.clone()),
            engine,
            control,
            aside: Arc::new(aside),
            pages: Pages::default(),
            metrics_page: MetricsPage::default(),
            metrics_path: settings.metrics_path.clone(),
            rest_cors: settings.rest_cors,
            numbers: settings.numbers,
            shared_memory: SharedMemory::new(settings.shared_memory),
            event_keepalive: settings.event_keepalive,
            gate: Gate::new(settings.security.access.clone()),
            tls: tls.map(ArcSwap::from_pointee),
            readiness: watch::Sender::new(Readiness {
                ready: false,
                reason: "the server is starting".to_owned(),
                draining: false,
            }),
        })
    }

    /// Who may ask from now on. The error says that the server was started without asking anybody.
    pub fn set_access(&self, access: Access) -> Result<(), String> {
        let set = self.gate.set(Arc::new(access));
        if set { Ok(()) } else { Err("the data ports were started without access control".to_owned()) }
    }

    /// How TLS begins on connections from now on. The error says what cannot be used; then nothing changes.
    pub fn set_tls(&self, pem: &Pem) -> Result<(), String> {
        let tls = self.tls.as_ref().ok_or("the data ports were started without TLS")?;
        tls.store(Arc::new(Tls::new(pem)?));
        Ok(())
    }

    /// The current readiness.
    pub fn readiness(&self) -> Readiness {
        self.readiness.borrow().clone()
    }

    /// The readiness now and whenever it changes.
    pub fn watch_readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// Sets it.
    pub fn set_readiness(&self, ready: bool, reason: &str) {
        self.readiness.send_modify(|now| {
            now.ready = ready;
            reason.clone_into(&mut now.reason);
        });
    }

    /// Not ready any more; watches of the readiness end.
    pub fn begin_drain(&self) {
        let reason = "the server is draining".to_owned();
        self.readiness.send_replace(Readiness { ready: false, reason, draining: true });
    }
}

//! Who is told of requests that have ended: the access log, a collector of traces, or both; and of which.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderMap;
use tidegate_codec::status::Code;

use crate::metrics::TelemetryMetrics;
use crate::request_id::{RequestId, Share};
use crate::telemetry::access_file::AccessFile;
use crate::telemetry::access_line;
use crate::telemetry::observation::{Came, Ended, Ending, Facts, Observation};
use crate::telemetry::outlet::Outlet;
use crate::telemetry::refused_lines::RefusedLines;
use crate::trace_context::{Parent, TraceIds};

/// Requests that may wait to be written, in each of the two buffers.
const WAITING: usize = 1 << 14;

/// How often it is told how many lines were left out.
const LEFT_OUT_TOLD: Duration = Duration::from_secs(1);

/// The access log.
#[derive(Clone, Debug, Default)]
pub struct AccessLogOptions {
    /// The file; none for standard error.
    pub path: Option<PathBuf>,
    /// Which requests are in it, by the hash of their id.
    pub share: Share,
    /// Requests that take so long are in it whatever their id is; none for no such rule.
    pub slow: Option<Duration>,
    /// So many lines a second have requests of one address that no model ran for; none for all. Slow ones are in it anyway.
    pub refused_per_second: Option<u32>,
}

/// What is told of requests, and of which; the default is nothing.
#[derive(Clone, Debug, Default)]
pub struct TelemetryOptions {
    /// The access log, if there is one.
    pub access_log: Option<AccessLogOptions>,
    /// Which traces are recorded of those that begin here, if any are sent to a collector.
    pub traces: Option<Share>,
}

/// Where spans go.
pub trait TraceSink: Send + Sync {
    /// Takes requests whose traces are recorded. False when they are lost.
    fn take_traces(&self, _ended: &[Arc<Ended>]) -> bool {
        false
    }
}

/// Looks at requests.
#[derive(Debug)]
pub struct Observer {
    options: TelemetryOptions,
    ids: TraceIds,
    refused: Option<RefusedLines>,
    lines: Outlet<Arc<Ended>>,
    spans: Outlet<Arc<Ended>>,
    metrics: Arc<TelemetryMetrics>,
}

impl Observer {
    /// One that does so, where anything is told at all.
    pub fn new(options: &TelemetryOptions, metrics: Arc<TelemetryMetrics>) -> Option<Arc<Observer>> {
        let wanted = options.access_log.is_some() || options.traces.is_some();
        let (lines, spans) = (Outlet::new(WAITING), Outlet::new(WAITING));
        let refused = options.access_log.as_ref().and_then(|log| log.refused_per_second).map(RefusedLines::new);
        let observer =
            || Observer { options: options.clone(), ids: TraceIds::default(), refused, lines, spans, metrics };
        wanted.then(|| Arc::new(observer()))
    }

    /// A request has begun to come. Whether it is traced is what its caller says, or else a matter of the trace's id, as
    /// in OpenTelemetry's `parentbased_traceidratio`.
    pub fn begin(self: &Arc<Self>, came: Came, headers: &HeaderMap) -> Observation {
        let share = self.options.traces.unwrap_or_default();
        let trace = self.ids.begin(Parent::of(headers), |low| share.covers(low));
        let facts = Facts {
            came,
            trace,
            received: None,
            bytes_in: 0,
            id: None,
            model: None,
            version: None,
            served: None,
            rows: None,
            reached: false,
            entered: None,
            ran: None,
            code: None,
            http_status: None,
            bytes_out: 0,
        };
        Observation::new(facts, self.clone())
    }

    /// The file of the access log, if there is one, opened.
    pub fn access_file(&self) -> std::io::Result<Option<AccessFile>> {
        self.options.access_log.as_ref().map(|log| AccessFile::open(log.path.as_deref())).transpose()
    }

    /// The thread that writes the access log.
    pub fn run_access_log(&self, file: &mut AccessFile) {
        let counted = || self.refused.as_ref().map_or_else(Vec::new, RefusedLines::take_left_out);
        let mut told = Instant::now();
        self.lines.run(&self.metrics.access_lines, |items| {
            let mut lines = Vec::with_capacity(items.len() * 512);
            items.iter().for_each(|ended| access_line::write(&mut lines, ended));
            if told.elapsed() >= LEFT_OUT_TOLD {
                told = Instant::now();
                counted().into_iter().for_each(|left_out| access_line::write_left_out(&mut lines, left_out));
            }
            if file.write(&lines).is_ok() { items.len() } else { 0 }
        });
        let mut lines = Vec::new();
        counted().into_iter().for_each(|left_out| access_line::write_left_out(&mut lines, left_out));
        // Where the file fails, metrics have the count.
        let _ = file.write(&lines);
    }

    /// Whether a request that has ended has its line: one that no model took may be a stranger's.
    fn admits(&self, ended: &Ended) -> bool {
        let Some(refused) = &self.refused else { return true };
        let facts = &ended.facts;
        let taken = match ended.code() {
            Code::Ok => facts.reached || facts.served.is_some(),
            Code::Unknown | Code::Internal | Code::DeadlineExceeded => facts.reached,
            _ => facts.ran.is_some(),
        };
        let admitted = taken || refused.admit(ended.facts.came.peer.map(|peer| peer.ip()), ended.at);
        if !admitted {
            self.metrics.refused_lines_left_out.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Whether traces are recorded.
    pub fn traces(&self) -> bool {
        self.options.traces.is_some()
    }

    /// The thread that hands recorded traces on.
    pub fn run_traces(&self, sink: &dyn TraceSink) {
        let take = |items: &[Arc<Ended>]| if items.is_empty() || sink.take_traces(items) { items.len() } else { 0 };
        self.spans.run(&self.metrics.traces, take);
    }

    /// Both threads write what waits, and end.
    pub fn close(&self) {
        self.lines.close();
        self.spans.close();
    }
}

impl Ending for Observer {
    fn ended(&self, facts: Facts) {
        let mut ended = Ended { facts, at: Instant::now(), clock: SystemTime::now(), slow: false };
        let spans = self.options.traces.is_some() && ended.facts.trace.sampled;
        let line = self.options.access_log.as_ref().is_some_and(|log| {
            ended.slow = log.slow.is_some_and(|slow| ended.took() >= slow);
            // What was refused at once has no id.
            let hash = ended.facts.id.as_ref().map_or_else(|| ended.facts.trace.low(), RequestId::hash);
            ended.slow || log.share.covers(hash) && self.admits(&ended)
        });
        let ended = Arc::new(ended);
        if line {
            self.lines.offer(ended.clone(), &self.metrics.access_lines);
        }
        if spans {
            self.spans.offer(ended, &self.metrics.traces);
        }
    }
}

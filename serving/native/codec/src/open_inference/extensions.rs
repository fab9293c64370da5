//! Triton's extensions that are not here, and what to do instead.

use crate::status::{Code, Status};

/// An extension that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// Tensors in memory that client and server share: that of devices, and all where it is not allowed.
    SharedMemory,
    /// What is traced.
    Trace,
    /// What the server logs.
    Log,
    /// Models that come and go.
    Loading,
}

impl Elsewhere {
    /// The answer to who asks for it.
    #[cold]
    pub fn refusal(self) -> Status {
        let why = match self {
            Elsewhere::SharedMemory => {
                "shared memory is not used here: have the engine's operator set shared_memory, or send values in the \
                 request itself, as raw_input_contents over gRPC or as binary data over REST; there is none of devices"
            }
            Elsewhere::Trace => {
                "traces are not set over this port: trace_endpoint and trace_sampling_rate of the engine's configuration \
                 do it, and a request's traceparent for that request"
            }
            Elsewhere::Log => {
                "logging is not set over this port: `tidegate log-level` does it, and access_log_path of the engine's \
                 configuration has every request written"
            }
            Elsewhere::Loading => {
                "models are loaded and unloaded over the control port, through their gates: `tidegate push` loads a version, \
                 and `tidegate block` keeps one from serving"
            }
        };
        Status::new(Code::Unimplemented, why)
    }
}

/// The methods of theirs that are not in the protocol itself.
pub const METHODS: [(&str, Elsewhere); 3] = [
    ("CudaSharedMemoryRegister", Elsewhere::SharedMemory),
    ("TraceSetting", Elsewhere::Trace),
    ("LogSettings", Elsewhere::Log),
];

/// What a path of theirs below `/v2/` asks for, by whatever method.
pub fn of_path(path: &str) -> Option<Elsewhere> {
    let is = |found: &str, wanted: &str| found.eq_ignore_ascii_case(wanted);
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    // Behind the name of a model.
    let last = rest.split_once('/').map_or("", |(_, last)| last);
    if is(first, "models") {
        return is(last, "trace/setting").then_some(Elsewhere::Trace);
    }
    if is(first, "logging") && rest.is_empty() {
        return Some(Elsewhere::Log);
    }
    if is(first, "trace") && is(rest, "setting") {
        return Some(Elsewhere::Trace);
    }
    let change = last.split_once('/').filter(|_| is(first, "repository")).map_or("", |(_, change)| change);
    (is(change, "load") || is(change, "unload")).then_some(Elsewhere::Loading)
}

//! Settings, signatures and batching limits as frozen Python values, checked where they are made.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_codec::dtype::{ALL, DType};
use tidegate_codec::protobuf::tensor::Numbers;
use tidegate_codec::signatures::signature::{DocumentSchema, Signature as CoreSignature};
use tidegate_codec::signatures::spec::{FirstAxis, TensorSpec as CoreSpec};
use tidegate_codec::status::{Code, Status};
use tidegate_codec::version_state::VersionState;
use tidegate_engine::batching::limits::Batching as CoreBatching;
use tidegate_engine::request_id::Share;
use tidegate_engine::telemetry::{AccessLogOptions, TelemetryOptions};
use tidegate_log_files::{ColumnRules, LogWriter, Rule};
use tidegate_plane::security::access::{Access, Caller, TokenLine};
use tidegate_plane::security::tls;
use tidegate_plane::settings as core;

use crate::arrays::values::{self, Origin};

/// The server's certificate, its key, and who signs those of clients, where these have to show one (PEM); and whether the
/// gRPC endpoint alone shows it.
pub(crate) type Pem = (Vec<u8>, Vec<u8>, Option<Vec<u8>>, bool);

/// Who may ask. Tokens: SHA-256, name, role, patterns of models, and their end in seconds since 1970. Certificates:
/// name, role, patterns.
pub(crate) type AccessLines =
    (Vec<(String, String, String, Vec<String>, Option<f64>)>, Vec<(String, String, Vec<String>)>);

/// File (none for standard error), share of requests, seconds (0 for none) after which a request is in it anyway, and
/// lines that refused requests of one address have in a second (0 for all).
pub(crate) type AccessLog = (Option<PathBuf>, f64, f64, u32);

fn telemetry(access_log: Option<AccessLog>, traces: Option<f64>) -> PyResult<TelemetryOptions> {
    let share = |rate| {
        Share::new(rate).ok_or_else(|| PyValueError::new_err(format!("a sampling rate is {rate}: use 0.0 to 1.0")))
    };
    let access_log = access_log.map(|(path, rate, slow, refused)| {
        let slow = Duration::try_from_secs_f64(slow).ok().filter(|slow| !slow.is_zero());
        let refused_per_second = (refused > 0).then_some(refused);
        Ok::<_, PyErr>(AccessLogOptions { path, share: share(rate)?, slow, refused_per_second })
    });
    Ok(TelemetryOptions { access_log: access_log.transpose()?, traces: traces.map(share).transpose()? })
}

/// A version's number, state, gRPC code and text.
pub(crate) type State = (i64, u64, i64, String);

/// As the engine has it.
pub(crate) fn version_state((version, state, code, message): State) -> VersionState {
    VersionState { version, state, status: Status::new(Code::from_number(code), message) }
}

/// As the plane has it.
pub(crate) fn pem((certificate, key, client_ca, grpc_alone): Pem) -> tls::Pem {
    tls::Pem { certificate, key, client_ca, grpc_alone }
}

/// From milliseconds for a head, an idle connection, a silent one, and an answer that nobody takes.
fn patience(milliseconds: [u64; 4]) -> core::Patience {
    let [header, idle, keepalive, write] = milliseconds.map(Duration::from_millis);
    core::Patience { header, idle, keepalive, write }
}

/// As the plane has it; ValueError for what cannot be.
pub(crate) fn read_access((tokens, certificates): AccessLines) -> PyResult<Access> {
    let token =
        |(sha256, name, role, models, expires)| -> TokenLine { (sha256, Caller { name, role, models }, expires) };
    let certificate = |(name, role, models)| Caller { name, role, models };
    let tokens = tokens.into_iter().map(token).collect();
    Access::new(tokens, certificates.into_iter().map(certificate).collect()).map_err(PyValueError::new_err)
}

/// How the plane listens and what it bounds.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Settings {
    pub(crate) plane: core::Settings,
    pub(crate) log: Option<LogWriter>,
}

#[pymethods]
impl Settings {
    #[new]
    #[pyo3(signature = (*, grpc_address, rest_address, grpc_socket_path=None, metrics_path=None, starting=false, rest_cors=false, tensor_content=false, shared_memory=false, tls=None, access=None, access_log=None,
        trace_sampling_rate=None, io_threads=1,
        max_message_bytes=67108864, request_memory_bytes=1073741824, max_connections=4096,
        header_timeout_ms=10000, idle_timeout_ms=620000, keepalive_ms=30000, write_timeout_ms=30000,
        request_timeout_ms=30000, event_keepalive_ms=15000, log_path=None, log_columns=HashMap::new(), log_salt=Vec::new(), prediction_log_path=None,
        log_block_rows=16384, log_block_interval_ms=1000, log_buffer_bytes=134217728))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python, one structure from here on")]
    fn new(
        grpc_address: Option<String>,
        rest_address: Option<String>,
        grpc_socket_path: Option<PathBuf>,
        metrics_path: Option<String>,
        starting: bool,
        rest_cors: bool,
        tensor_content: bool,
        shared_memory: bool,
        tls: Option<Pem>,
        access: Option<AccessLines>,
        access_log: Option<AccessLog>,
        trace_sampling_rate: Option<f64>,
        io_threads: usize,
        max_message_bytes: usize,
        request_memory_bytes: usize,
        max_connections: usize,
        header_timeout_ms: u64,
        idle_timeout_ms: u64,
        keepalive_ms: u64,
        write_timeout_ms: u64,
        request_timeout_ms: u64,
        event_keepalive_ms: u64,
        log_path: Option<PathBuf>,
        log_columns: HashMap<String, String>,
        log_salt: Vec<u8>,
        prediction_log_path: Option<PathBuf>,
        log_block_rows: usize,
        log_block_interval_ms: u64,
        log_buffer_bytes: usize,
    ) -> PyResult<Settings> {
        let plane = core::Settings {
            grpc_address,
            grpc_socket_path,
            rest_address,
            metrics_path,
            starting,
            rest_cors,
            numbers: if tensor_content { Numbers::AsContent } else { Numbers::InFields },
            shared_memory,
            security: core::Security { tls: tls.map(pem), access: access.map(read_access).transpose()?.map(Arc::new) },
            telemetry: telemetry(access_log, trace_sampling_rate)?,
            io_threads,
            max_message_bytes,
            request_memory_bytes,
            max_connections,
            patience: patience([header_timeout_ms, idle_timeout_ms, keepalive_ms, write_timeout_ms]),
            request_timeout: Duration::from_millis(request_timeout_ms),
            event_keepalive: Duration::from_millis(event_keepalive_ms),
            log_block_rows,
            log_block_interval: Duration::from_millis(log_block_interval_ms),
            log_buffer_bytes,
        };
        plane.check().map_err(PyValueError::new_err)?;
        let rules = column_rules(log_columns, &log_salt)?;
        let writer = |path| LogWriter::new(path, rules).with_prediction_logs(prediction_log_path);
        Ok(Settings { plane, log: log_path.map(writer) })
    }

    #[getter]
    fn grpc_address(&self) -> Option<&str> {
        self.plane.grpc_address.as_deref()
    }

    #[getter]
    fn rest_address(&self) -> Option<&str> {
        self.plane.rest_address.as_deref()
    }
}

fn column_rules(names: HashMap<String, String>, salt: &[u8]) -> PyResult<ColumnRules> {
    let rule = |(column, name): (String, String)| match Rule::from_name(&name) {
        Some(rule) => Ok((column, rule)),
        None => Err(PyValueError::new_err(format!("log column '{column}' is to be '{name}': use hash or omit"))),
    };
    Ok(ColumnRules::new(names.into_iter().map(rule).collect::<PyResult<_>>()?, salt))
}

/// Name, dtype and shape of one input or output; -1 is a dimension of any size, the first axis is the batch.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct TensorSpec(CoreSpec);

#[pymethods]
impl TensorSpec {
    #[new]
    #[pyo3(signature = (*, name, dtype, shape, unknown_rank=false))]
    fn new(name: String, dtype: &str, shape: Vec<i64>, unknown_rank: bool) -> PyResult<TensorSpec> {
        let found = DType::from_name(dtype).ok_or_else(|| {
            let known = ALL.map(DType::name).join(", ");
            PyValueError::new_err(format!("tensor '{name}' has dtype '{dtype}': use one of {known}"))
        })?;
        if unknown_rank && !shape.is_empty() {
            return Err(PyValueError::new_err(format!("tensor '{name}' has a shape and an unknown rank: give one")));
        }
        let any = || CoreSpec::of_any_rank(name.clone(), found);
        Ok(TensorSpec(if unknown_rank { any() } else { CoreSpec::new(name, found, shape) }))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn dtype(&self) -> &str {
        self.0.dtype.name()
    }

    #[getter]
    fn shape(&self) -> Vec<i64> {
        self.0.shape.clone()
    }

    #[getter]
    fn unknown_rank(&self) -> bool {
        self.0.unknown_rank
    }
}

/// One way to call a version.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Signature(pub(crate) CoreSignature);

#[pymethods]
impl Signature {
    #[new]
    #[pyo3(signature = (*, name, method_name, inputs, outputs, first_axis="batch", defaults=None, event_time=None,
        streaming=false, sequences=false, schema=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python, one structure from here on")]
    fn new(
        name: String,
        method_name: String,
        inputs: Vec<PyRef<'_, TensorSpec>>,
        outputs: Vec<PyRef<'_, TensorSpec>>,
        first_axis: &str,
        defaults: Option<Bound<'_, PyDict>>,
        event_time: Option<&str>,
        streaming: bool,
        sequences: bool,
        schema: Option<(String, String)>,
    ) -> PyResult<Signature> {
        let specs = |list: &[PyRef<'_, TensorSpec>]| list.iter().map(|spec| spec.0.clone()).collect();
        let axis = FirstAxis::from_name(first_axis).ok_or_else(|| {
            let known = FirstAxis::NAMES.map(|(_, name)| name).join(", ");
            PyValueError::new_err(format!("signature '{name}' has first axis '{first_axis}': use one of {known}"))
        })?;
        let signature = CoreSignature::with_axis(name, method_name, specs(&inputs), specs(&outputs), axis)
            .map_err(PyValueError::new_err)?;
        let signature = match event_time {
            Some(name) => signature.with_event_time(name),
            None => signature,
        };
        let signature = if streaming { signature.with_streaming().map_err(PyValueError::new_err)? } else { signature };
        let signature = if sequences { signature.with_sequences().map_err(PyValueError::new_err)? } else { signature };
        let signature = match schema {
            Some((request, response)) => {
                signature.with_schema(DocumentSchema { request, response }).map_err(PyValueError::new_err)?
            }
            None => signature,
        };
        let Some(given) = defaults else { return Ok(Signature(signature)) };
        let read = |spec: &CoreSpec| {
            given.get_item(&spec.name)?.map(|value| values::read(spec, &value, Origin::Caller)).transpose()
        };
        let defaults = signature.inputs.iter().map(read).collect::<PyResult<Vec<_>>>()?;
        Ok(Signature(signature.with_defaults(defaults)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }
}

/// When a batch closes and how long its queue may grow.
#[pyclass(frozen, module = "tidegate_native")]
pub(crate) struct Batching(pub(crate) CoreBatching);

#[pymethods]
impl Batching {
    #[new]
    #[pyo3(signature = (*, max_batch_rows=1024, timeout_us=0, max_queued_rows=16384, waits_when_full=false, concurrency=1, allowed_batch_sizes=Vec::new(),
        pad_variable_length_inputs=false, priority_levels=0, default_priority_level=0))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python, one structure from here on")]
    fn new(
        max_batch_rows: usize,
        timeout_us: u64,
        max_queued_rows: usize,
        waits_when_full: bool,
        concurrency: usize,
        allowed_batch_sizes: Vec<usize>,
        pad_variable_length_inputs: bool,
        priority_levels: usize,
        default_priority_level: usize,
    ) -> PyResult<Batching> {
        let batching = CoreBatching {
            max_batch_rows,
            timeout_us,
            max_queued_rows,
            waits_when_full,
            concurrency,
            allowed_batch_sizes: allowed_batch_sizes.into(),
            pad_variable_length_inputs,
            priority_levels,
            default_priority_level,
        };
        batching.check().map_err(PyValueError::new_err)?;
        Ok(Batching(batching))
    }
}
